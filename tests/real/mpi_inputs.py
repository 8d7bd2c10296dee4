"""Inputs for the MPI applications of mpi_applications.py: seconds of work, or minutes."""


def lammps_input(long):
    """A Lennard-Jones liquid that melts from a crystal, in its reduced units."""
    side, steps = (24, 1000) if long else (14, 100)
    return f"""
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 {side} 0 {side} 0 {side}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify delay 0 every 20 check no
fix 1 all nve
thermo 20
run {steps}
"""


def hpcc_lines(long):
    """HPCC's input, each line described in the words of the package's own example. HPCC finds lines
    by number: with two lines too many, it reads sizes that nobody wrote."""
    size = 4000 if long else 400
    return (
        ("HPLinpack benchmark input file", ""),
        ("of a test", ""),
        ("HPL.out", "output file name (if any)"),
        (8, "device out (6=stdout,7=stderr,file)"),
        (1, "# of problems sizes (N)"),
        (size, "Ns"),
        (1, "# of NBs"),
        (HPCC_BLOCK, "NBs"),
        (0, "PMAP process mapping (0=Row-,1=Column-major)"),
        (1, "# of process grids (P x Q)"),
        (1, "Ps"),
        (2, "Qs"),
        (16.0, "threshold"),
        (1, "# of panel fact"),
        (1, "PFACTs (0=left, 1=Crout, 2=Right)"),
        (1, "# of recursive stopping criterium"),
        (4, "NBMINs (>= 1)"),
        (1, "# of panels in recursion"),
        (2, "NDIVs"),
        (1, "# of recursive panel fact."),
        (1, "RFACTs (0=left, 1=Crout, 2=Right)"),
        (1, "# of broadcast"),
        (0, "BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)"),
        (1, "# of lookahead depth"),
        (1, "DEPTHs (>=0)"),
        (2, "SWAP (0=bin-exch,1=long,2=mix)"),
        (64, "swapping threshold"),
        (0, "L1 in (0=transposed,1=no-transposed) form"),
        (0, "U in (0=transposed,1=no-transposed) form"),
        (1, "Equilibration (0=no,1=yes)"),
        (8, "memory alignment in double (> 0)"),
        ("#####", HPCC_SEPARATOR),
        (1, "Number of additional problem sizes for PTRANS"),
        (size, "values of N"),
        (1, "number of additional blocking sizes for PTRANS"),
        (HPCC_BLOCK, "values of NB"),
    )


HPCC_BLOCK = 64
HPCC_SEPARATOR = "This line (no. 32) is ignored (it serves as a separator). ######"


def hpcc_input(long):
    return "".join(f"{value} {meaning}\n" for value, meaning in hpcc_lines(long))


def hpcc_understood(long):
    """What HPCC prints of its input if it read each line as intended. PTRANS takes its own sizes
    and half of HPL's."""
    size = 4000 if long else 400
    return {"N": f"{size}", "NB": f"{HPCC_BLOCK}", "P": "1", "Q": "2",
            "SWAP": "Mix (threshold = 64)", "L1": "transposed form", "U": "transposed form",
            "EQUIL": "yes", "ALIGN": "8 double precision words",
            "PTRANS M": f"{size} {size // 2}", "PTRANS N": f"{size} {size // 2}",
            "PTRANS MB": f"{HPCC_BLOCK} {HPCC_BLOCK}", "PTRANS NB": f"{HPCC_BLOCK} {HPCC_BLOCK}",
            "PTRANS P": "1", "PTRANS Q": "2"}


def tachyon_scene(long):
    """Reflecting balls over a plane."""
    side = 4096 if long else 1024
    balls = "".join(
        f"SPHERE CENTER {x}.0 {(x * z) % 3}.5 {z}.0 RAD 0.45 TEXTURE AMBIENT 0.1 DIFFUSE 0.6 "
        f"SPECULAR 0.3 OPACITY 1.0 COLOR 0.{1 + abs(x)} 0.{1 + z} 0.5 TEXFUNC 0\n"
        for x in range(-4, 5) for z in range(9))
    return f"""BEGIN_SCENE
RESOLUTION {side} {side}
CAMERA
  ZOOM 1.0
  ASPECTRATIO 1.0
  ANTIALIASING 1
  RAYDEPTH 6
  CENTER 0.0 3.0 -7.0
  VIEWDIR 0.0 -0.2 1.0
  UPDIR 0.0 1.0 0.0
END_CAMERA
LIGHT CENTER 4.0 8.0 -6.0 RAD 0.2 COLOR 1.0 1.0 1.0
PLANE CENTER 0.0 -1.0 0.0 NORMAL 0.0 1.0 0.0 TEXTURE AMBIENT 0.1 DIFFUSE 0.8 SPECULAR 0.1 OPACITY
1.0 COLOR 0.9 0.9 0.9 TEXFUNC 0
{balls}END_SCENE
"""
