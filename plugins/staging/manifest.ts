import {
  closedObject, ClusterService, ConfigService, DeclarationService, SessionService, StateService
} from '../../kernel/index.js'
import type { Context, Manifest, ModelCard, Section } from '../../kernel/index.js'
import { verbs } from './cli/verbs.js'
import { EventLogService } from '../event-log/service.js'
import { conflicts, errors, events, commands, sections } from './declarations.js'
import { routes } from './routes.js'
import { ModelsService } from './service.js'
import { settings } from './settings.js'
import type { CopyEntry, StoreEntryFact } from './types.js'

export const manifest = {
  name: 'staging', version: '1.0.0', kernel: '^1.0.0',
  summary: 'Keeps models in a store, copies them to the nodes that need them, and frees disk space.',
  after: ['event-log'],
  consumes: {
    cluster: ClusterService, config: ConfigService, declarations: DeclarationService,
    session: SessionService, state: StateService
  },
  consumesOptional: { eventLog: EventLogService }, provides: { models: ModelsService },
  checks: { rooms: { summary: 'Disk space for models.', load: () => import('./doctor.js') } },
  tools: {
    disks: {
      summary: 'Disk space on each node and in the store, and the staged models of this node.',
      args: closedObject({}),
      load: () => import('./tools/disks.js')
    },
    downloads: {
      summary: 'Downloads into the store and transfers to nodes: failed, paused, in progress.',
      finds: { past: false },
      args: closedObject({ model: { type: 'string', minLength: 1, maxLength: 512 } }, []),
      load: () => import('./tools/downloads.js')
    }
  },
  variables: {
    SVC_HUB_TOKEN: 'Token for the hub.', SVC_HUB_TOKEN_HOST: 'The host that the token is sent to.'
  },
  settings, routes, events, errors, conflicts, sections, commands, verbs,
  state: { downloads: 'Transfers of models, by node.' },
  stateReadings: ['downloads'],
  // In a development cluster the first node is the store host, from which the others copy models.
  devSettings: { 'model_store.store_path': '{home}/store', node_cache_path: null },
  stateWhereabouts: ['stagingRoot', 'directory', 'storePath', 'store_path']
} as const satisfies Manifest

/** The plugin's context, with types of the sections that are stricter than their schemas. */
export type StagingContext = Omit<Context<typeof manifest>, 'sections'> & {
  readonly sections: {
    readonly modelCopies: Section<CopyEntry>
    readonly storeModels: Section<StoreEntryFact>
    readonly customCards: Section<ModelCard>
    readonly modelLists: Section<{ version: number, count: number }>
    readonly stores: Section<{ since: string }>
    readonly storeHosts: Section<{ since: string }>
  }
}
