set multiplot layout {{rows}},{{columns}} margins 0.1,0.98,{{bottom}},{{top}} spacing 0.07,{{gap}}
# One key for all panels, below them: gnuplot's own belongs to one panel and is as wide as it.
unset key
do for [m=1:|measure_labels|] {
  x = 0.1 + 0.18 * (m - 1)
  set arrow m from screen x, {{key}} to screen x + 0.045, {{key}} nohead lw 1.6 \
    dt measure_dashes[m] lc rgb measure_colours[m]
  set label m measure_labels[m] at screen x + 0.0225, {{key}} offset 2.5, 0 \
    point pt measure_marks[m] ps 0.8 lc rgb measure_colours[m]
}
set xrange [0:{{last}}]
set yrange [0:{{most}}]
do for [i=1:|labels|] {
  set title labels[i] offset 0,-0.5
  if (i > |labels| - {{columns}}) { set xlabel 'seconds since the start' } else { unset xlabel }
  if ((i - 1) % {{columns}} == 0) { set ylabel '{{unit}}' offset 1.5,0 } else { unset ylabel }
  plot for [m=1:|measure_labels|] 'measures.dat' index i-1 using 1:m+1 with linespoints \
    lw 1.6 dt measure_dashes[m] pt measure_marks[m] ps 0.6 pn 7 lc rgb measure_colours[m] notitle
}
unset multiplot
