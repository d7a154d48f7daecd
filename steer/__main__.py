from steer.commands import app

app(prog_name="steer")
