// The definition of the policy that assignment.bicep assigns, in the subscription. What begins with `[` is an expression of Azure Policy,
// or of the template that it deploys: Bicep evaluates none of them.
targetScope = 'subscription'

@description('The role that the deployments of the policy need.')
param role string

resource definition 'Microsoft.Authorization/policyDefinitions@2023-04-01' = {
  name: 'scheduled-events-vm-application'
  properties: {
    displayName: 'Linux machines with the tag scheduled-events have the VM Application of their stage'
    policyType: 'Custom'
    mode: 'Indexed'
    parameters: {
      stage: {
        type: 'String'
      }
      versionId: {
        type: 'String'
      }
      policyUri: {
        type: 'String'
      }
    }
    policyRule: {
      if: {
        allOf: [
          {
            field: 'type'
            equals: 'Microsoft.Compute/virtualMachines'
          }
          {
            field: 'Microsoft.Compute/virtualMachines/storageProfile.osDisk.osType'
            equals: 'Linux'
          }
          {
            field: 'tags[\'scheduled-events\']'
            equals: '[parameters(\'stage\')]'
          }
        ]
      }
      then: {
        effect: 'deployIfNotExists'
        details: {
          type: 'Microsoft.Compute/virtualMachines'
          name: '[field(\'name\')]'
          roleDefinitionIds: [
            role
          ]
          existenceCondition: {
            count: {
              field: 'Microsoft.Compute/virtualMachines/applicationProfile.galleryApplications[*]'
              where: {
                allOf: [
                  {
                    field: 'Microsoft.Compute/virtualMachines/applicationProfile.galleryApplications[*].packageReferenceId'
                    equals: '[parameters(\'versionId\')]'
                  }
                  {
                    field: 'Microsoft.Compute/virtualMachines/applicationProfile.galleryApplications[*].configurationReference'
                    equals: '[parameters(\'policyUri\')]'
                  }
                ]
              }
            }
            greater: 0
          }
          deployment: {
            properties: {
              mode: 'incremental'
              parameters: {
                name: {
                  value: '[field(\'name\')]'
                }
                location: {
                  value: '[field(\'location\')]'
                }
                versionId: {
                  value: '[parameters(\'versionId\')]'
                }
                policyUri: {
                  value: '[parameters(\'policyUri\')]'
                }
              }
              template: {
                '$schema': 'https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#'
                contentVersion: '1.0.0.0'
                parameters: {
                  name: {
                    type: 'string'
                  }
                  location: {
                    type: 'string'
                  }
                  versionId: {
                    type: 'string'
                  }
                  policyUri: {
                    type: 'string'
                  }
                }
                resources: [
                  {
                    type: 'Microsoft.Compute/virtualMachines'
                    apiVersion: '2024-07-01'
                    name: '[parameters(\'name\')]'
                    location: '[parameters(\'location\')]'
                    properties: {
                      applicationProfile: {
                        galleryApplications: [
                          {
                            packageReferenceId: '[parameters(\'versionId\')]'
                            configurationReference: '[parameters(\'policyUri\')]'
                          }
                        ]
                      }
                    }
                  }
                ]
              }
            }
          }
        }
      }
    }
  }
}

output id string = definition.id
