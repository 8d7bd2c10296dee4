#!/bin/sh
# Makes our copy of jemalloc's static archive: checks that it is the one the hooks were written for,
# renames the public functions that we export in versions of our own, and unties operator new from
# libstdc++.
#
#   prepare_engine.sh ARCHIVE OUTPUT WORK_FOLDER
#
# NM, AR and OBJCOPY name the binutils of the archive's machine. Prints the logarithm of the engine's
# page, which the archive was built with (LG_PAGE): not below any page that the kernel may have.
set -eu
archive=$1
output=$2
work=$3
nm=${NM:-nm}
ar=${AR:-ar}
objcopy=${OBJCOPY:-objcopy}

fail() {
  echo "rdmalloc: $archive cannot be the engine: $1" >&2
  echo "rdmalloc: have it made from the sources of jemalloc 5.3.0: cmake -DRDMALLOC_JEMALLOC_SOURCE=DIR" >&2
  exit 1
}

[ -r "$archive" ] || fail "it is not there"

wrapped=$(sed -n 's/^ *-Wl,--wrap=\([a-z0-9_]*\).*/\1/p' "$(dirname "$0")/engine_wraps.txt")
renamed="malloc calloc mallocx mallctl mallctlbymib free realloc posix_memalign aligned_alloc
  memalign valloc malloc_usable_size sallocx rallocx xallocx nallocx dallocx sdallocx"
used="je_je_sdallocx_noflags je_malloc_default je_opt_cache_oblivious je_arenas je_narenas_auto
  je_arena_get_ehooks je_arena_decay je_opt_prof je_opt_zero je_opt_junk_alloc
  je_opt_junk_free je_opt_tcache je_opt_utrace je_opt_xmalloc je_tsd_slow_update je_tsd_tls
  je_tsd_fetch_slow je_tcache_flush je_b0get je_arena_emap_global je_malloc_mutex_prefork
  je_malloc_mutex_postfork_parent je_malloc_mutex_postfork_child malloc_conf_2_conf_harder"

defined=$("$nm" --defined-only "$archive" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u)
undefined=$("$nm" --undefined-only "$archive" 2>/dev/null | awk 'NF == 2 { print $2 }' | sort -u)
for symbol in $wrapped $renamed $used; do
  echo "$defined" | grep -qx "$symbol" || fail "it does not define $symbol"
done
# A function that its own object file alone calls cannot be taken over by the linker.
for symbol in $wrapped; do
  echo "$undefined" | grep -qx "$symbol" || fail "nothing calls $symbol across object files"
done

# jemalloc has 36 sizes of small objects where its page is 4 KiB, and four more for each doubling; of
# each this table has an int.
table=$("$nm" -S --defined-only "$archive" 2>/dev/null |
  awk '$4 == "je_arena_bin_offsets" { print $2 }')
[ -n "$table" ] || fail "it does not define je_arena_bin_offsets"
sizes=$((0x$table / 4))
lg_page=$((12 + (sizes - 36) / 4))
[ $((36 + (lg_page - 12) * 4)) = $sizes ] && [ $lg_page -ge 12 ] && [ $lg_page -le 16 ] ||
  fail "it has $sizes sizes of small objects, which is true of no page from 4 to 64 KiB"

rm -rf "$work"
mkdir -p "$work"
(cd "$work" && "$ar" x "$archive")
grep -aq "5[.]3[.]0-" "$work"/ctl.*o || fail "it is not jemalloc 5.3.0"
rename=
for symbol in $renamed; do rename="$rename --redefine-sym $symbol=je_$symbol"; done
# shellcheck disable=SC2086  # a list of words
"$objcopy" $rename "$work"/jemalloc.*o
# jemalloc starts before main, so that no thread can be starting it while another forks. Here the
# thread that creates the first other one has allocated, if only what that one's start needs.
"$objcopy" --remove-section .init_array --remove-section .rela.init_array "$work"/jemalloc.*o
# new and delete meet blocks of the page heap by the functions that we put in the place of jemalloc's:
# malloc and free, and what they call for large and for sized objects. What operator new throws and
# catches comes from the program's libstdc++, if it has one.
of_program="_ZSt20__throw_system_errori _ZSt9terminatev _ZTISt9bad_alloc __cxa_begin_catch __cxa_end_catch
  __gxx_personality_v0"
# shellcheck disable=SC2046  # a list of words
"$objcopy" --redefine-sym je_je_sdallocx_noflags=rdmalloc_sized_free \
  --redefine-sym je_malloc_default=rdmalloc_malloc_default \
  --redefine-sym _ZSt15set_new_handlerPFvvE=rdmalloc_set_new_handler \
  --redefine-sym _ZSt17__throw_bad_allocv=rdmalloc_throw_bad_alloc \
  --redefine-sym _Unwind_Resume=rdmalloc_unwind_resume \
  $(for symbol in $of_program; do echo --weaken-symbol "$symbol"; done) "$work"/jemalloc_cpp.*o
for symbol in $of_program; do
  ! "$nm" --undefined-only "$work"/jemalloc_cpp.*o | grep -q " U $symbol$" ||
    fail "$objcopy cannot weaken its reference to $symbol (binutils 2.36 can)"
done
# The heap profiler alone has to do with numbers that are not whole: see profiler_math.cpp.
for object in "$work"/prof*.o; do
  "$objcopy" --redefine-sym log=rdmalloc_log --redefine-sym exp=rdmalloc_exp \
    --redefine-sym round=rdmalloc_round "$object"
done
rm -f "$output"
"$ar" rcs "$output" "$work"/*.o
rm -rf "$work"
echo "$lg_page"
