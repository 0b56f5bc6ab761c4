import {
  closedObject, DeclarationService, OwnApiService, SessionService, type Manifest
} from '../../kernel/index.js'
import { PlacementService } from '../placement/service.js'
import { RunnersService, RunnerWorkService } from '../runners/service.js'
import { ModelsService } from '../staging/service.js'
import { routes } from './routes.js'

const nothing = closedObject({})

export const manifest = {
  name: 'steward', version: '1.0.0', kernel: '^1.0.0',
  summary: 'Answers questions about the cluster from what its plugins know, with the evidence.',
  requires: ['capabilities'], after: ['placement', 'runners', 'staging'],
  consumes: { api: OwnApiService, declarations: DeclarationService, session: SessionService },
  consumesOptional: {
    keeping: PlacementService, models: ModelsService, runners: RunnersService, work: RunnerWorkService
  },
  settings: {
    steward: {
      type: 'object', additionalProperties: false,
      description: 'The steward, which answers questions about the cluster.',
      properties: {
        enabled: { type: 'boolean', default: true, description: 'False: questions are answered with 404.' },
        model: {
          type: ['string', 'null'], default: null, minLength: 3, maxLength: 200,
          pattern: '^(auto|(?!svc/steward$)[^/\\s]+/[^/\\s]+)$',
          description:
            'The chat model that words the answers, which the cluster then keeps placed. auto: the largest ' +
            'that does tools, is on a node or in the store and fits. Without one the answers are written ' +
            'from templates, and nothing is placed. The setting of the master counts.'
        }
      }
    }
  },
  routes,
  errors: {
    steward_disabled: {
      status: 404, retryable: false, message: 'The steward is switched off.',
      remedy: 'Set steward.enabled to true in svc.yaml and restart: `svc config set steward.enabled true`.'
    },
    steward_instance: {
      status: 409, retryable: false, message: 'The instance is the steward\'s, which is on.',
      remedy: 'Choose another model with `svc config set steward.model`, or switch the steward off with ' +
        '`svc config set steward.enabled false`, and restart: then it goes by itself.'
    }
  },
  conflicts: {
    steward_model_missing: {
      severity: 'warn',
      meaning: 'The model that is to word the answers of the steward has no place, or failed.',
      remediation: 'Bring it with `svc pull MODEL`, or choose another one: `svc config set steward.model`.'
    }
  },
  sections: {
    signsOfLife: {
      writer: 'node',
      summary: 'Probes in a row, by instance, to which the model of the steward gave no sign of life.',
      value: closedObject({ failed: { type: 'integer', minimum: 1 } })
    }
  },
  verbs: {
    ask: {
      heading: 'Use models',
      summary: 'ask what is wrong in the cluster, why and since when; without a question, a conversation',
      args: '[question...]',
      examples: [
        'svc ask is everything fine', 'svc ask "why does acme/voice not answer?"', 'svc ask',
        'svc ask "what is running" --json | jq -r .diagnosis'
      ],
      load: () => import('./cli/ask.js')
    }
  },
  tools: {
    cluster_now: {
      summary: 'Who is master and since when, which nodes are live or lost, quorum, session.', args: nothing,
      load: () => import('./tools/cluster-now.js')
    },
    node: {
      summary: 'How one node is: up, or lost since when; memory, disk, load, health, what runs there.',
      args: closedObject({
        node: { type: 'string', minLength: 1, maxLength: 100, description: 'Name or id of it, or local.' }
      }),
      load: () => import('./tools/node.js')
    },
    settings: {
      summary: 'Settings in force at the node that is asked, each with its origin; secrets are masked.',
      args: closedObject({
        path: {
          type: 'string', minLength: 1, maxLength: 200,
          description: 'Such as cluster.quorum, or the start of a path. All that are set when absent.'
        }
      }, []),
      load: () => import('./tools/settings.js')
    },
    plugins: {
      summary: 'Which plugins of the node that is asked are on, and why the others are off.', args: nothing,
      load: () => import('./tools/plugins.js')
    }
  }
} as const satisfies Manifest
