"""python -m fscil: the command line."""

from fscil.cli.main import main

if __name__ == "__main__":
    main()
