#!/usr/bin/env python3
"""perl: hashes, regular expressions and sorting."""

from side_by_side import check_books, check_same, run_both
from verdict import check, need, test_in_folder

SCRIPT = r"""
use strict; use warnings;
my ($seed, %count, %by_length, @lines) = (42);
sub draw { $seed = ($seed * 1103515245 + 12345) % 2147483648; return int($seed / 65536) % $_[0] }
for my $i (1 .. 120_000) {
  my $word = join '', map { chr(97 + draw(26)) } 1 .. 3 + draw(4);
  $count{$word}++;
  push @{$by_length{length $word}}, $word;
  push @lines, "$i:$word:" . draw(1000) if $i % 3 == 0;
}
print "$_ ", scalar @{$by_length{$_}}, "\n" for sort keys %by_length;
my @top = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
print "$_ $count{$_}\n" for @top[0 .. 99];
my ($vowels, $sum) = (0, 0);
for (@lines) {
  $vowels++ if /:[^:]*?([aeiou])[^:]*\1/;
  $sum += $1 if /:(\d+)$/;
  s/(\w)(\w)/$2$1/g;
}
print "$vowels $sum $lines[-1]\n";
my $text = join "\n", @lines;
my $growing = '';
$growing .= substr($text, draw(1000), 1 + draw(4000)) for 1 .. 5_000;
print length $growing, ' ', unpack('%32C*', $growing), "\n";
my $long = 'x' x 30_000_000;
$long =~ tr/x/y/;
print length $long, substr($long, -3), "\n";
print join(',', (sort { $a <=> $b } map { draw(1_000_000) } 1 .. 200_000)[0, 1, 99_999, -1]), "\n";
delete @count{grep { /a/ } keys %count};
print scalar(keys %count), "\n";
my $child = open(my $pipe, '-|') // die;
if (!$child) { print scalar(@lines), "\n"; exit 0 }
print 'child says ', <$pipe>;
"""


def perl(folder):
    command = [need("perl"), "-e", SCRIPT]
    plain, other = run_both(command, folder, environment={"PERL_HASH_SEED": "0"})
    check_same(plain, other)
    check(plain.status == 0, "perl failed")
    check_books(other, least_held=30 << 20)


test_in_folder(perl)
