set xlabel 'time, seconds (small: runs, large: medians)'
set xrange {{seconds}}
set ylabel 'peak resident memory, {{unit}}'
set yrange {{peaks}}
plot 'tradeoff.dat' index 0 using 1:2 with steps lw 1.2 dt 2 lc rgb '#59616b' title 'Pareto line', \
  for [i=1:|labels|] '' index 2*i-1 using 1:2 with points pt marks[i] ps 0.5 lc rgb colours[i] notitle, \
  for [i=1:|labels|] '' index 2*i using 1:2 with points pt marks[i] ps 1.4 lc rgb colours[i] title labels[i]
