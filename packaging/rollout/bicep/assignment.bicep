// An Azure Policy that gives every Linux machine of a resource group, which has the tag `scheduled-events` with the value of a stage, a
// version of the VM Application with the watch.toml of that stage. Assign it once for each stage. New machines get it within minutes;
// those that exist, with a remediation task. To take a machine to another stage, change its tag and remediate.
//
// The deployment replaces the list of the machine's applications: add others of yours to `applications`.
//
//   az deployment group create --resource-group shop --template-file assignment.bicep --parameters stage=observe versionId=ID policyUri=URI identity=ID
@description('The stage: the value of the tag that machines have.')
param stage string

@description('The output `versionId` of application.bicep.')
param versionId string

@description('The blob with the watch.toml of this stage. Everybody who can read the assignment sees it: use a blob without a token, or an identity.')
param policyUri string

@description('The id of a user-assigned identity with the roles Virtual Machine Contributor for this group and Reader for the gallery.')
param identity string

param location string = resourceGroup().location

var contributor = subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '9980e02c-c2be-4d73-94e8-173b1dc7cf3c')

module definition 'definition.bicep' = {
  name: 'scheduled-events-policy'
  scope: subscription()
  params: {
    role: contributor
  }
}

resource assignment 'Microsoft.Authorization/policyAssignments@2024-04-01' = {
  name: 'scheduled-events-${stage}'
  location: location
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${identity}': {}
    }
  }
  properties: {
    displayName: 'scheduled-events, stage ${stage}'
    policyDefinitionId: definition.outputs.id
    parameters: {
      stage: {
        value: stage
      }
      versionId: {
        value: versionId
      }
      policyUri: {
        value: policyUri
      }
    }
  }
}
