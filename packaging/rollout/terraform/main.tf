# The VM Application `scheduled-events` in a gallery, one version of it, and its assignment to machines with the policy of their stage.
# Upload the .deb and one watch.toml for each stage to a container first. Machines go to the next stage, or back, with `stage`; they go
# to another version with `version_number`. Azure runs the commands of ../vm-application.
terraform {
  required_version = ">= 1.5"
  required_providers {
    azurerm = {
      source  = "hashicorp/azurerm"
      version = ">= 4.0"
    }
  }
}

variable "gallery" {
  type        = object({ id = string, location = string })
  description = "A shared image gallery, such as azurerm_shared_image_gallery.tools."
}

variable "version_number" {
  type        = string
  description = "The version of the application, such as 0.1.0: numbers only."
}

variable "package_uri" {
  type        = string
  description = "The blob with the .deb; with a SAS token that can read it, unless everybody can."
}

variable "policy_uris" {
  type        = map(string)
  description = "The blob with watch.toml for each stage, such as observe, approve and prepare."
}

variable "machines" {
  type        = map(object({ id = string, stage = string }))
  description = "The machines by name: their id, and the stage that each is in."

  validation {
    condition     = alltrue([for machine in var.machines : contains(keys(var.policy_uris), machine.stage)])
    error_message = "policy_uris has no blob for the stage of a machine."
  }
}

resource "azurerm_gallery_application" "scheduled_events" {
  name              = "scheduled-events"
  gallery_id        = var.gallery.id
  location          = var.gallery.location
  supported_os_type = "Linux"
  description       = "Prepares machines for the maintenance that Azure announces"
}

resource "azurerm_gallery_application_version" "this" {
  name                   = var.version_number
  gallery_application_id = azurerm_gallery_application.scheduled_events.id
  location               = var.gallery.location
  package_file           = "scheduled-events.deb"
  config_file            = "watch.toml"

  manage_action {
    install = file("${path.module}/../vm-application/install")
    update  = file("${path.module}/../vm-application/update")
    remove  = file("${path.module}/../vm-application/remove")
  }

  source {
    media_link                 = var.package_uri
    default_configuration_link = var.policy_uris["observe"]
  }

  target_region {
    name                   = var.gallery.location
    regional_replica_count = 1
  }

  # Machines keep the version that they have until they have another one.
  lifecycle {
    create_before_destroy = true
  }
}

resource "azurerm_virtual_machine_gallery_application_assignment" "this" {
  for_each                       = var.machines
  gallery_application_version_id = azurerm_gallery_application_version.this.id
  virtual_machine_id             = each.value.id
  configuration_blob_uri         = var.policy_uris[each.value.stage]
}
