import { cardSchema } from '../../kernel/index.js'
import type { CommandDecl, SectionDecl } from '../../kernel/index.js'

const text = { type: 'string' } as const
const bytes = { type: 'integer', minimum: 0 } as const
/** A card as its schema says, or without its files where only what the model is matters. */
const card = { ...cardSchema, required: cardSchema.required.filter((name) => name !== 'files') } as const

/** What nodes tell each other about models. */
export const sections = {
  modelCopies: {
    writer: 'node',
    summary: 'Model id to the complete copy on the node; `ready` while a runner there serves it.',
    value: {
      type: 'object', additionalProperties: false, required: ['kind', 'digest', 'sizeBytes', 'ready'],
      properties: {
        kind: { enum: ['bundled', 'staged', 'cache'] }, digest: text, sizeBytes: bytes,
        ready: { type: 'boolean' }
      }
    }
  },
  storeModels: {
    writer: 'node',
    summary: 'Model id to what the store on the node has of it; the card is without its files.',
    value: {
      type: 'object', additionalProperties: false,
      required: ['digest', 'revision', 'totalBytes', 'source', 'downloadedAt', 'bundled', 'card'],
      properties: {
        digest: text, revision: text, totalBytes: bytes, source: text, downloadedAt: text,
        bundled: { type: 'boolean' }, choice: { type: 'object' }, card
      }
    }
  },
  stores: {
    writer: 'master',
    summary: 'Install ids of the store hosts, so that a store that is away is not taken for none.',
    value: {
      type: 'object', additionalProperties: false, required: ['since'], properties: { since: text }
    }
  },
  storeHosts: {
    writer: 'node',
    summary: '`store` on a node that is a store host.',
    value: {
      type: 'object', additionalProperties: false, required: ['since'], properties: { since: text }
    }
  },
  homeCards: {
    writer: 'node',
    summary: 'Model id to a card in the folder `cards` of the node\'s home, without its files.',
    value: card
  },
  customCards: {
    writer: 'master',
    summary: 'Model id to a card that was added over the API.',
    value: card
  }
} as const satisfies Record<string, SectionDecl>

/** Decisions about custom cards and store hosts. */
export const commands = {
  setStore: {
    summary: 'Notes that a node is a store host, or is none any more.',
    args: {
      type: 'object', additionalProperties: false, required: ['installId', 'is'],
      properties: { installId: text, is: { type: 'boolean' } }
    },
    result: { type: 'object', required: ['is'], properties: { is: { type: 'boolean' } } }
  },
  addCard: {
    summary: 'Adds a custom card, or replaces it.',
    args: { type: 'object', additionalProperties: false, required: ['card'], properties: { card } },
    result: { type: 'object', required: ['modelId'], properties: { modelId: text } }
  },
  removeCard: {
    summary: 'Removes a custom card; nothing happens when it is gone.',
    args: {
      type: 'object', additionalProperties: false, required: ['modelId'], properties: { modelId: text }
    },
    result: { type: 'object', required: ['removed'], properties: { removed: { type: 'boolean' } } }
  }
} as const satisfies Record<string, CommandDecl>
