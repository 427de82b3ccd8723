"""The C library as a Conan 2 package, built with cargo from the tree that this recipe is in:

    conan create packaging/conan [-o "scheduled-events/*:shared=True"]
"""

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.files import copy, load, rm

PRIVATE = ["gcc_eh", "util", "rt", "pthread", "m", "dl", "c"]


class ScheduledEvents(ConanFile):
    name = "scheduled-events"
    description = "Read, track and decide on Azure Scheduled Events, without allocating"
    license = "MIT OR Apache-2.0"
    topics = ("azure", "imds", "maintenance", "spot")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": False}

    def set_version(self):
        manifest = load(self, os.path.join(self.recipe_folder, "../../Cargo.toml"))
        self.version = re.search(r'^version = "(.*)"$', manifest, re.M)[1]

    def export(self):
        copy(self, "LICENSE-*", os.path.join(self.recipe_folder, "../.."), self.export_folder)

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "../..")
        for pattern in ("Cargo.*", "LICENSE-*", "core/*", "client/*", "replay/*", "cli/*", "ffi-c/*", "py/*", "include/*", "services/*",
                        "examples/rust/*", "tests/layout/*", "tests/no-panic/*", "tests/support/*"):
            copy(self, pattern, root, self.export_sources_folder, excludes=("*/target/*",))

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("the recipe builds for Linux only; use cargo for other systems")

    def package_id(self):
        # Cargo builds an optimised library with a C ABI, whatever the compiler and its settings are.
        del self.info.settings.compiler
        del self.info.settings.build_type

    def build(self):
        self.run("ffi-c/build.sh --locked", cwd=self.source_folder)

    def package(self):
        self.run(f'ffi-c/install.sh "{self.package_folder}"', cwd=self.source_folder)
        copy(self, "LICENSE-*", self.source_folder, os.path.join(self.package_folder, "licenses"))
        rm(self, "*.a" if self.options.shared else "*.so*", os.path.join(self.package_folder, "lib"))

    def package_info(self):
        self.cpp_info.libs = ["scheduled_events"]
        self.cpp_info.set_property("cmake_file_name", "scheduled_events")
        self.cpp_info.set_property("cmake_target_name", "scheduled_events::scheduled_events")
        self.cpp_info.set_property("pkg_config_name", "scheduled_events")
        if not self.options.shared:
            self.cpp_info.system_libs = PRIVATE
