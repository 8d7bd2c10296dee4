set xlabel 'seconds since the start'
set xrange [0:*]
set ylabel 'held / live'
if ({{most}} > 10) { set logscale y; set yrange [1:*] } else { set yrange [0:*] }
plot for [i=1:|labels|] 'ratio.dat' index i-1 using 1:2 with linespoints \
  lw 1.6 dt dashes[i] pt marks[i] ps 0.8 pn 10 lc rgb colours[i] title labels[i]
