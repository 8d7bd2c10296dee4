"""What the MPI applications of mpi_applications.py are given: a few seconds' work, or minutes'."""


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


def hpcc_input(long):
    """HPL's input, which HPCC takes the other sizes from, too. Lines are found by their number."""
    size = 4000 if long else 400
    return f"""HPLinpack benchmark input file
of a test
HPL.out
8
1
{size}
1
64
0
1
1
2
16.0
1
1
1
4
1
2
1
1
1
0
1
1
1
0
2
64
0
0
1
8
1
0
1
{size}
1
64
"""


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
