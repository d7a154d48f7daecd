"""The front door of a checkout: `python cli.py run …` is `steer run …`, without an install of steer itself."""

from steer.commands import app

if __name__ == "__main__":
    app(prog_name="steer")
