"""The command `python -m infra.emulated`: an emulated SGLang server under SGLang's own flags."""

import os
import sys

from infra.emulated.collector import calm_collector
from infra.emulated.life.launch import main

if __name__ == "__main__":
    calm_collector()
    sys.exit(main(sys.argv[1:], os.environ))
