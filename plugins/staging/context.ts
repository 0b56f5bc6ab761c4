import type { Context, ModelCard, Section } from '../../kernel/index.js'
import type { manifest } from './manifest.js'
import type { CopyEntry, StoreEntryFact } from './types.js'

/** The kernel as this plugin sees it; its sections have more type than their schemas say. */
export type StagingContext = Omit<Context<typeof manifest>, 'sections'> & {
  readonly sections: {
    readonly modelCopies: Section<CopyEntry>
    readonly storeModels: Section<StoreEntryFact>
    readonly homeCards: Section<ModelCard>
    readonly customCards: Section<ModelCard>
    readonly stores: Section<{ since: string }>
    readonly storeHosts: Section<{ since: string }>
  }
}
