"""How the programs of this folder are started, and how they print their figures."""
