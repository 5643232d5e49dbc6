#!/usr/bin/python3
"""No thread wakes a loop with uv_async_send: the loop that it wakes can spin until that thread goes on, in real time for as
long as the kernel lets it, and uv_queue_work uses that. daemon/core/loop_bell.h and loop_work.h do the same without waiting."""
import re

import common

OWN = "daemon/core/loop_bell.c"

common.rule("loops are woken by bells alone", [
    f"{path}:{common.line_of(text, found.start())}: {found.group(1)}: wake the loop with core/loop_bell.h, or core/loop_work.h"
    for path in common.files("daemon", endings=(".c", ".h")) if path != OWN
    for text in [common.without_comments(common.read(path))]
    for found in re.finditer(r"\b(uv_async_(?:init|send)|uv_queue_work)\b", text)])
common.finish()
