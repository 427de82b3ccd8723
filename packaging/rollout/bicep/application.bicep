// The VM Application `scheduled-events` in a gallery, and one version of it. assignment.bicep gives it to the machines of a
// resource group. Azure runs the commands of ../vm-application.
//
//   az deployment group create --resource-group tools --template-file application.bicep --parameters gallery=tools version=0.1.0 packageUri=URI policyUri=URI
@description('A compute gallery that exists in this resource group.')
param gallery string

@description('The version of the application, such as 0.1.0: numbers only.')
param version string

@description('The blob with the .deb; with a SAS token that can read it, unless everybody can.')
@secure()
param packageUri string

@description('The blob with the watch.toml that machines get which are assigned no other one: that of the stage `observe`.')
@secure()
param policyUri string

param location string = resourceGroup().location

resource existing 'Microsoft.Compute/galleries@2023-07-03' existing = {
  name: gallery
}

resource application 'Microsoft.Compute/galleries/applications@2023-07-03' = {
  parent: existing
  name: 'scheduled-events'
  location: location
  properties: {
    supportedOSType: 'Linux'
    description: 'Prepares machines for the maintenance that Azure announces'
  }
}

resource applicationVersion 'Microsoft.Compute/galleries/applications/versions@2023-07-03' = {
  parent: application
  name: version
  location: location
  properties: {
    publishingProfile: {
      source: {
        mediaLink: packageUri
        defaultConfigurationLink: policyUri
      }
      manageActions: {
        install: loadTextContent('../vm-application/install')
        update: loadTextContent('../vm-application/update')
        remove: loadTextContent('../vm-application/remove')
      }
      settings: {
        packageFileName: 'scheduled-events.deb'
        configFileName: 'watch.toml'
      }
      targetRegions: [
        {
          name: location
          regionalReplicaCount: 1
        }
      ]
    }
  }
}

output versionId string = applicationVersion.id
