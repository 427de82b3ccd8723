# Installs scheduled-events into an image, with a configuration that approves nothing: machines of the image report events from their
# first boot, and cloud-init, the Ansible role or the VM Application configures them further. Add your source, as here of the plugin
# `azure`, and run: packer init . && packer build -var repository=https://packages.example.com .
variable "repository" {
  type        = string
  description = "The address of the repository that `make packages PARTS=repository` wrote."
}

variable "version" {
  type        = string
  description = "The version in the repository; an image is built again for each."
}

build {
  sources = ["source.azure-arm.base"]

  provisioner "file" {
    source      = "scheduled-events.asc"
    destination = "/tmp/scheduled-events.asc"
  }

  provisioner "shell" {
    execute_command  = "sudo env DEBIAN_FRONTEND=noninteractive {{ .Vars }} sh -eu '{{ .Path }}'"
    environment_vars = ["REPOSITORY=${var.repository}", "VERSION=${var.version}"]
    inline = [
      "install -D -m 644 /tmp/scheduled-events.asc /etc/apt/keyrings/scheduled-events.asc",
      "echo \"deb [signed-by=/etc/apt/keyrings/scheduled-events.asc] $REPOSITORY/apt stable main\" >/etc/apt/sources.list.d/scheduled-events.list",
      "apt-get -o DPkg::Lock::Timeout=600 update",
      "apt-get -o DPkg::Lock::Timeout=600 --yes install \"scheduled-events=$VERSION\"",
      # Enabled and not started: what a watcher of this machine learns is no state for others.
      "systemctl enable scheduled-events",
    ]
  }

  provisioner "shell" {
    execute_command = "sudo sh -eu '{{ .Path }}'"
    inline          = ["waagent -force -deprovision+user", "sync"]
  }
}
