"""The front door of a checkout: `python cli.py run …` is `steer run …`, without an install of steer itself."""

from steer.__main__ import main

if __name__ == "__main__":
    main()
