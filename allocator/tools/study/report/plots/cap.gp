set multiplot layout 2,1
set lmargin 10
set xrange {{caps}}
unset xlabel
set yrange [0:*]
set ylabel 'time, seconds'
plot 'cap.dat' index 0 using 1:2 with lines lw 1.2 lc rgb '#59616b' notitle, \
  for [i=1:|labels|] '' index i using 1:2 with points pt marks[i] ps 0.5 lc rgb colours[i] notitle, \
  for [i=1:|labels|] '' index 0 every ::i-1::i-1 using 1:2 with points pt marks[i] ps 1.4 lc rgb colours[i] title labels[i]{{uncapped}}
set xlabel 'cap, {{unit}}'
set ylabel 'peak overflow, {{unit}}'
unset key
plot 'cap.dat' index 0 using 1:3 with lines lw 1.2 lc rgb '#59616b', \
  for [i=1:|labels|] '' index 0 every ::i-1::i-1 using 1:3 with points pt marks[i] ps 1.4 lc rgb colours[i]
unset multiplot
set key
