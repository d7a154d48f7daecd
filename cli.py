"""Run steer from a checkout: `python cli.py run …` is `steer run …`, without installing the package."""

from steer.__main__ import main

if __name__ == "__main__":
    main()
