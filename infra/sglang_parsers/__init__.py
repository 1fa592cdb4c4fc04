"""The real argument parsers of many versions of SGLang, read without installing any of them.

build.py         fetches the code of a version and reads its parser once
read_parser.py   the program that builds a parser, with stand-ins for what it does not need
dumps.py         what a parser says, as values
compare.py       where the flag table and a parser differ
rows.py          rows of the flag table, written from the parsers
pins/            which file of each version is fetched, by its digest
"""
