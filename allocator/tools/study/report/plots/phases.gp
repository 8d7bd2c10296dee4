set style data histograms
set style histogram clustered gap 1
set style fill solid 1 noborder
set title {{title}}
set xlabel 'phase'
set xrange {{phases}}
set xtics ({{tics}}){{turned}}
set ylabel 'peak in the phase, {{unit}}'
set yrange [0:*]
plot for [i=1:|labels|] 'phases.dat' using i lc rgb colours[i] title labels[i]
