#!/usr/bin/env python3
"""Compare the LLVM IR of kernels in two directories: ircheck OLD NEW (names and comments do not matter)."""
import subprocess, sys, re, concurrent.futures as cf
R=" -D RESULT_WORD=%d -D RESULT_BITS=%d -D RESULT_KIND=%d -D RESULT_LEFT=%d -D RESULT_SWAP=%d -D RESULT_DOUBLE=%d"
res=["",R%(2,16,0,0,1,0),R%(3,24,1,0,0,1),R%(4,32,2,0,0,0),R%(1,8,0,0,0,0)]
cases=[]
for k in ["local.cl","general.cl","partitioned.cl","overlap_add.cl"]:
    for r in res[:3]:
        cases+= [(k,"-D LANES=16 -D ITEMS=1"+r),(k,"-D LANES=1 -D ITEMS=128"+r),(k,"-D LANES=16 -D ITEMS=1 -D GLOBAL_SCRATCH"+r)]
for L,I in ((16,1),(1,128)):
    for w,s,f,i in ((2,0,0,0),(3,1,0,1),(4,0,1,0),(4,1,0,0),(1,0,0,1)):
        for r in res[:2]:
            cases.append(("direct.cl",f"-D LANES={L} -D ITEMS={I} -D TILE=256 -D WORD={w} -D SWAP={s} -D FLOATS={f} -D INVERT={i}"+r))
def reg(points,each,rad,width,blocks,split):
    rad=rad+[1]*(4-len(rad))
    return f"-D POINTS={points}u -D EACH={each}u "+" ".join(f"-D RADIX_{i}={x}u" for i,x in enumerate(rad))+f" -D WIDTH={width}u -D BLOCKS={blocks}u -D SPLIT={split}"
fmt=["-D WORD=4 -D SWAP=0 -D KIND=2 -D SHIFT_LEFT=0 -D SHIFT_RIGHT=0 -D OFFSET=0","-D WORD=2 -D SWAP=1 -D KIND=0 -D SHIFT_LEFT=16 -D SHIFT_RIGHT=16 -D OFFSET=1","-D WORD=3 -D SWAP=0 -D KIND=1 -D SHIFT_LEFT=8 -D SHIFT_RIGHT=8 -D OFFSET=0"]
extra=["-D COMPONENTS=1 -D PLAIN=1 -D FORM=0u -D FRAME_BYTES=4u -D STRIDE=1u -D HOP=64u -D LOAD_FROM=0u","-D COMPONENTS=2 -D PLAIN=0 -D DECIMATE=6u -D KEPT=2u"]
for g in [(64,8,[8,8],2,4,0),(512,16,[16,8,4],1,2,0),(1024,16,[16,8,8],1,1,1)]:
    for f in fmt:
        for e,r in ((extra[0],res[0]),(extra[1],res[1]),(extra[1],res[0])):
            cases.append(("fused.cl",reg(*g)+" "+f+" "+e+r))
            cases.append(("staged.cl",reg(*g[:3],16,1,0)+" "+f+" -D STAGED_COLUMNS -D STEP=256u -D SIDE=2u -D KEPT_COLUMNS="+("2u " if e is extra[1] else "1u ")+e.replace("-D KEPT=2u","")+r))
    cases.append(("staged.cl",reg(*g)+" -D ROWS=256u -D COMPONENTS=2 -D KEPT=2u"))
    cases.append(("staged.cl",reg(*g)+" -D ROWS=64u -D COMPONENTS=1 -D KEPT=1u"))
def lanes(L,logq,logs,ch,co,sp,run,bl,form,fmtn,late,dec,fb=None):
    w,s,f,u,sl,sr,sc,of=fmtn
    logs=logs+[0]*(5-len(logs))
    return f"-D LANES={L} -D LOG_Q={logq} "+" ".join(f"-D LOG_{i}={x}" for i,x in enumerate(logs))+f" -D CHANNELS={ch} -D COMPONENTS={co} -D SPAN={sp} -D RUN={run} -D BLOCKS={bl} -D FORM={form} -D STRIDE={ch*(2 if form==1 else 1)} -D FRAME_BYTES={fb or ch*w} -D WORD={w} -D SWAP={s} -D FLOATS={f} -D UNSIGNED={u} -D SHIFT_LEFT={sl} -D SHIFT_RIGHT={sr} -D SCALED={sc} -D OFFSETS={of} -D LATE={late} -D DECIMATED={dec} -D ITEMS=1"
F=[(4,0,1,0,0,0,0,0),(2,1,0,0,16,16,1,1),(3,0,0,1,8,8,1,0),(4,1,0,0,0,0,1,1)]
for i,f in enumerate(F):
    for r in res:
        cases.append(("lanes.cl",lanes(16,9,[3,3],16,1,16,1,1,0,f,1,i%2)+r))
        cases.append(("lanes.cl",lanes(8,9,[3,3],1,1,1,4,2,0,f,1,0)+r))
        cases.append(("lanes.cl",lanes(16,10,[2,2,3],2,2,4,4,1,2,f,0,i%2)+r))
        cases.append(("lanes.cl",lanes(4,8,[2,3],2,2,4,1,1,1,f,0,0)+r))
for k in ["published/multiple_convolution.cl"]: cases+=[(k,"-D NP=64 -D MAX_NP=64"),(k,"-D NP=64 -D MAX_NP=16"),(k,"-D NP=64 -D MAX_NP=128")]
for k in ["published/direct_convolution.cl","published/single_fft.cl","published/pipeline_2d.cl"]: cases.append((k,""))
cases.append(("published/vector_width.cl","-D ELEMENT=float4"))
def ir(d,k,o):
    p=subprocess.run(["/usr/bin/clang-14","-x","cl","-cl-std=CL1.2","-Xclang","-finclude-default-header","-target","x86_64-unknown-linux","-march=skylake-avx512","-O0","-Xclang","-disable-llvm-passes","-S","-emit-llvm","-o","-","-I",d,"-Dinline=static inline","-Wno-everything"]+o.split()+[d+"/"+k],capture_output=True,text=True)
    if p.returncode: return None,p.stderr[:600]
    t=p.stdout; names={}
    t="\n".join(l for l in t.split("\n") if not l.startswith(("; ModuleID","source_filename","!","attributes")))
    def n(m): return names.setdefault(m.group(0),f"{m.group(0)[0]}n{len(names)}")
    t=re.sub(r"@(?!_Z)[A-Za-z_][\w.]*|%(struct|union)\.[\w.]+",n,t)
    t=re.sub(r"!\w+ !\d+","",t)
    t=re.sub(r'"[^"]*"',"",t)
    # module-level type and global order
    return t,None
def norm(t): return t
def one(c):
    a,ea=ir(sys.argv[1],*c); b,eb=ir(sys.argv[2],*c)
    if a is None and b is None: return (c,"neither compiles: "+ea)
    if b is None: return (c,"NEW does not compile: "+eb)
    if a is None: return (c,"OLD does not compile: "+ea)
    return (c,None if a==b else "DIFFERS")
if len(sys.argv)>3: cases=[c for c in cases if re.search(sys.argv[3],c[0])]
bad=0
with cf.ThreadPoolExecutor(2) as ex:
    for c,r in ex.map(one,cases):
        if r: bad+=1; print(*c,"\n   ",r)
print(len(cases),"cases,",bad,"bad")
sys.exit(bad>0)
