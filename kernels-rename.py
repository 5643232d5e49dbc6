#!/usr/bin/env python3
"""One-off: renames identifiers in kernels/ and in the mutants' source text."""
import re,glob,os
COMMON=[(r'\bseen_(reset|store|load|gather|word|write)\b',r'stats_\1'),(r'\bseen_join\b','stats_merge'),(r'\bseen_columns\b','column_stats'),(r'\bstruct seen\b','struct statistics'),(r'\bseen\b','stats')]
REG=COMMON+[(r'\bplace_item\b','item_index'),(r'\bplace_point\b','point_index'),(r'\btakes_part\b','is_active'),(r'\bturn_points\b','twiddle_points'),(r'\bturn_root\b','twiddle_first_pass'),(r'\bpass_back\b','inverse_pass'),(r'\bgive\b','writer'),(r'\btake\b','reader'),(r'\bturned\b','rotated'),(r'\breversed\(','digits_reversed('),(r'\bbin_of\b','bin_index'),
 (r'\bsample_quick\b','sample_fast'),(r'\bsample_exact\b','sample_slow'),(r'\bpoints_exact\b','points_slow'),(r'\bwindow_plain\b','window_contiguous'),(r'\bexact\b','slow'),(r'\bmost\b','greatest'),(r'\bnothing\b','nan_probe'),(r'\bframe_place\b','frame_store'),(r'\bfresh\b','is_new'),(r'\bplace\b','at'),(r'\bcolumn_back\b','column_inverse'),(r'\bstaged_back\b','staged_inverse'),(r'\breport_join\b','report_merge'),(r'\bJOINERS\b','MERGE_ITEMS'),(r'\bREPORTERS\b','GATHER_ITEMS'),(r'\bto\.n\b','to.n')]
FFT=COMMON+[(r'\bsum_8\b','dft_8'),(r'\bsum_4\b','dft_4'),(r'\bsum_2\b','dft_2'),(r'\bpoint_eighth\b','point_times_eighth'),(r'\bpoint_three_eighths\b','point_times_three_eighths'),(r'\bframe_write_alone\b','frame_write_real'),(r'\balone\b','real_only'),(r'\bplace\b','at'),(r'\bfresh\b','is_new'),(r'\bwanted\b','valid')]
LANES=[(r'\bstruct levels seen\b','struct statistics own'),(r'&seen\b','&own'),(r'\bseen\.','own.'),(r'= seen;','= own;'),
 (r'\bstruct levels\b','struct statistics'),(r'\blevels_open\b','stats_reset'),(r'\blevels_(add|write)\b',r'stats_\1'),(r'\blevels\b','stats'),
 (r'\blevel_(\d)\b',r'pass_\1'),(r'\bLEVEL\b','PASS'),
 (r'\bAPART\b','NOINLINE'),(r'\bsource_words_apart\b','source_words_gather'),(r'\btarget_value_apart\b','target_value_scatter'),
 (r'\bIN_STRETCH\b','IN_CONTIGUOUS'),(r'\bOUT_STRETCH\b','OUT_CONTIGUOUS'),(r'\bOF_STRETCH\b','OF_CONTIGUOUS'),(r'\bout_stretch\b','out_contiguous'),(r'\bstretch_store\b','contiguous_store'),(r'\bstretch\b','contiguous_words'),(r'\bSTREAMED\b','STREAMABLE'),
 (r'\bREAD_CAREFULLY\b','READ_SLOW'),(r'\bvalue_careful\b','value_slow'),(r'\bframes_careful\b','frames_slow'),(r'\bcareful\b','slow'),(r'\bfresh\b','is_new'),
 (r'\bsum_(8|4|2)\b',r'dft_\1'),(r'\bsum_##R\b','dft_##R'),(r'\btimes_factor(_conjugate)?\b',r'times_twiddle\1'),(r'\bFACTORS\b','TWIDDLES'),(r'\bfactors\b','twiddles'),
 (r'\btarget_place\b','target_address'),(r'\bexchange\b','transpose'),(r'\bexchange_bit\b','transpose_bit'),(r'\bturn\b','group'),(r'\bhere\b','valid'),(r'\bold\b','old_peak'),(r'\bsuspect\b','near_full_scale'),(r'\bmost\b','greatest'),(r'\bwhole\b','whole'),(r'\bplace\b','frame_index')]
DIRECT=COMMON+[(r'\bPLACE\b','PADDED'),(r'\bstretches\b','sections'),(r'\bstretch\b','section'),(r'\bfactor_lanes\b','tap_lanes'),(r'\bfactor\b','coefficient'),(r'\bframe_write_alone\b','frame_write_real'),(r'\balone\b','real_only'),(r'\bplace\b','at'),(r'\bhere\b','valid'),(r'\bpast\b','after')]
PART=FFT
MAP={'kernels/registers.clh':REG,'kernels/window.clh':REG,'kernels/fused.cl':REG,'kernels/staged.cl':REG,
 'kernels/point.clh':FFT,'kernels/fft.clh':FFT,'kernels/sample.clh':FFT,'kernels/result.clh':FFT,'kernels/overlap_add.cl':FFT,'kernels/encode.clh':[(r'\bplace\b','at')],
 'kernels/general.cl':FFT,'kernels/partitioned.cl':FFT,'kernels/partitions.clh':FFT,'kernels/local.cl':FFT,'kernels/direct.cl':DIRECT,
 'kernels/lanes.cl':LANES,'kernels/lanes_frames.clh':LANES,'kernels/lanes_encode.clh':LANES}
def apply(t,m):
    for a,b in m: t=re.sub(a,b,t)
    return t
for f,m in MAP.items():
    s=open(f).read()
    out=[]; pos=0
    # code only: comments are rewritten by hand
    for c in re.finditer(r'/\*.*?\*/',s,re.S):
        out.append(apply(s[pos:c.start()],m)); out.append(c.group(0)); pos=c.end()
    out.append(apply(s[pos:],m)); open(f,'w').write(''.join(out))
for f in glob.glob('tests/mutants/*.mutants'):
    cur=None; o=[]
    for l in open(f).read().split('\n'):
        if l.startswith('file '): cur=l.split()[1]
        elif l.startswith('mutant '): cur=None
        elif l[:2] in ('- ','+ ') and cur in MAP: l=l[:2]+apply(l[2:],MAP[cur])
        o.append(l)
    open(f,'w').write('\n'.join(o))
