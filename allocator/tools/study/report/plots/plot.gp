# {{command}}
# Edit this and run it again here: gnuplot {{name}}.gp
# Long runs are thinned to what can be seen; samples.csv has every sample.
{{looks}}set encoding utf8
set border 3 lc rgb '#59616b'
set tics nomirror textcolor rgb '#1b1f24'
set grid ytics lt 1 lw 0.8 lc rgb '#d5dae0'
set key below left Left reverse samplen 3 height 0.7
do for [form in 'svg png'] {
if (form eq 'svg') {
  set terminal svg noenhanced size 960,{{height}} font 'sans-serif,14' background rgb '#ffffff'
} else {
  set terminal pngcairo noenhanced size 2*960,2*{{height}} font 'sans,14' fontscale 2 linewidth 2 pointscale 2
}
set output '{{name}}.'.form
{{body}}}
unset output
