"""The programs of the documentation and of the header."""

import re

from toolbox import HEADER, INCLUDE, ROOT, WARNINGS, WORK, expect, run


def check_pages(flags, prefix):
    """The programs of docs/program/c.md and the snippets of README.md, built with these flags against what is installed at `prefix`."""
    def blocks(page, language):
        return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.S)

    def prints(name, compiler, program, expected):
        source = WORK / name
        source.write_text(program)
        run(*compiler, *WARNINGS, source, "-o", WORK / "readme", *flags, f"-Wl,-rpath,{prefix}/lib")
        printed = run(WORK / "readme")
        expect(printed == expected, printed)

    c, cpp = ("gcc", "-std=c99"), ("g++", "-std=c++17")
    reading, outside = blocks("docs/program/c.md", "c")
    prints("readme.c", c, reading, "C7061BAC: approve, short interruption\n")
    prints("readme.c", c, outside, "applied\nC7061BAC: scheduled\n")
    documents, session = blocks("docs/program/c.md", "cpp")
    prints("readme.cc", cpp, documents, "Freeze C7061BAC: Scheduled\n")
    prints("readme.cc", cpp, session, blocks("docs/program/c.md", "text")[0])
    body = r'"{\"Events\":[{\"EventId\":\"a\"}]}"'
    prints("readme.c", c, "#include <scheduled_events.h>\n#include <stdio.h>\n#include <string.h>\nint main(void) {\n"
           f"const char *body = {body};\nsize_t body_len = strlen(body);\nschedev_document document;\n"
           "schedev_event_cursor cursor = SCHEDEV_CURSOR_INIT;\nschedev_event event;\nschedev_error error;\nchar id[256];\nsize_t len;\n"
           f"{blocks('README.md', 'c')[0]}}}\n", "a\n")
    prints("readme.cc", cpp, "#include <scheduled_events.hpp>\n#include <iostream>\nint main() {\n"
           f"const char *body = {body};\n{blocks('README.md', 'cpp')[0]}}}\n", "event a: none\n")
    return "as documented"


def check_header():
    """The two programs in the header's opening comment."""
    opening = HEADER.read_text().partition("*/")[0]
    blocks = re.findall(r"^ \*\n((?: \*     .*\n)+)", opening, re.M)
    expect(len(blocks) == 2, f"{len(blocks)} examples")
    agent, reader = (re.sub(r"^ \*     ", "  ", block, flags=re.M) for block in blocks)
    own = ("int64_t now_ms(void);\nvoid sleep_until_ms(int64_t);\nvoid drain(void);\nvoid return_to_service(void);\n"
           "void report(const schedev_step *);\nbool exchange(const schedev_step *, schedev_response *);\n")
    source = WORK / "opening.c"
    source.write_text(f"#include <scheduled_events.h>\n#include <stdio.h>\n{own}"
                      "schedev_status agent(void *, schedev_names, schedev_response);\n"
                      "schedev_status agent(void *memory, schedev_names names, schedev_response response) {\n"
                      f"{agent}  return status;\n}}\n"
                      "int reader(const char *, size_t);\n"
                      f"int reader(const char *body, size_t body_len) {{\n{reader}  return 0;\n}}\n")
    for compiler in ("gcc", "clang"):
        run(compiler, "-std=c99", *WARNINGS, f"-I{INCLUDE}", "-c", source, "-o", "/dev/null")
    return "2 examples"
