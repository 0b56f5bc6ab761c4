/** What a detector finds out about a model, and how that becomes a card. */
import type { CardFile, ModelCard } from '../../../kernel/index.js'
import { checkCard } from '../../runners/cards/card.js'
import type { Folder, FolderFile } from './folder.js'
import { CardError } from '../../runners/cards/reader.js'

export interface DeriveOptions {
  modelId: string
  revision: string
  files: FolderFile[]
  /** What the hub says; files are asked otherwise. */
  licence?: string | undefined
  languages?: string[] | undefined
}

type Needed = 'description' | 'tasks' | 'family' | 'engine' | 'backends' | 'nLayers' | 'contextLength' |
  'quantization'
type Optional = 'hiddenSize' | 'heads' | 'kvHeads' | 'headSize' | 'memory' | 'licence' | 'languages' |
  'voices' | 'defaults' | 'support' | 'supportsTensor'

/** Facts of one kind of model for its card. Sizes that a kind does not have are left out and become 0. */
export type ModelFacts = Pick<ModelCard, Needed> & Partial<Pick<ModelCard, Optional>> & {
  /** Roles of the files that make the model; all others are named by their paths. */
  roles: Map<string, string>
}

/** A format of models: what its files are, and what finds one. */
interface CardFormat {
  /** Formats are looked for in this order. */
  readonly rank: number
  readonly files: string
  /** Undefined: the folder holds none. @throws CardError */
  readonly find: (folder: Folder, modelId: string) => Promise<ModelFacts | undefined>
}

/** Makes cards of models for an engine: the default export of its `cards`. */
export interface CardReader {
  readonly engine: string
  readonly formats: readonly CardFormat[]
  /** Why a card that comes with the files of a model does not run on the engine; null if it does. */
  readonly refuses?: (card: ModelCard) => string | null
}

const NAMES: ReadonlyArray<[RegExp, string]> = [
  [/^(licen[cs]e|copying)([._-].*)?$|[._-]licen[cs]e(\.\w+)?$/, 'licence'],
  [/(^|\.)notice(\.\w+)?$/, 'notice'],
  [/\.jinja2?$|^chat_template\.json$/, 'template'],
  [/^(tokenizer.*|special_tokens_map|added_tokens)\.json$|^(tokenizer|spiece)\.model$/, 'tokenizer'],
  [/^(vocab\.(json|txt)|merges\.txt)$/, 'vocab'],
  [/^([a-z_]*config\.json)$/, 'config']
]

/** The role of a file that is not one of those a model is made of: `other` where its name says nothing. */
function roleOf (path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1).toLowerCase()
  return NAMES.find(([pattern]) => pattern.test(name))?.[1] ?? 'other'
}

/** Formats that run code when they are loaded; they are never opened. */
export const PICKLE = /\.(bin|pt|pth|ckpt|pkl|pickle)$/i

/** Name of the card inside a model's folder; never a file of the card itself. */
export const CARD_FILE = 'card.yaml'

/** The files of a card: all but the card, with their roles. */
export function cardFiles (
  files: readonly FolderFile[], roles: ReadonlyMap<string, string>
): { files: CardFile[], totalBytes: number } {
  const listed = files.filter(({ path }) => path !== CARD_FILE).map(({ path, size, sha256 }) => ({
    path, role: roles.get(path) ?? roleOf(path), bytes: size, ...sha256 === undefined ? {} : { sha256 }
  }))
  return { files: listed, totalBytes: listed.reduce((sum, { bytes }) => sum + bytes, 0) }
}

function licenceOf (folder: Folder, found: ModelFacts): string {
  const file = folder.files.find(({ path }) => roleOf(path) === 'licence')?.path
  return found.licence ?? (file === undefined ? 'not stated' : `see ${file}`)
}

/** The card. @throws CardError when a fact or a path does not fit into one */
export function toCard (found: ModelFacts, folder: Folder, options: DeriveOptions): ModelCard {
  const { modelId, revision } = options
  const { roles, ...facts } = found
  return checked({
    title: modelId.slice(modelId.indexOf('/') + 1),
    hiddenSize: 0, heads: 0, kvHeads: 0, headSize: 0,
    supportsTensor: false, companions: [], voices: [], defaults: {}, support: {},
    ...facts,
    modelId, revision,
    ...cardFiles(folder.files, roles),
    licence: options.licence ?? licenceOf(folder, found),
    languages: options.languages ?? facts.languages ?? []
  })
}

/** The same card. @throws CardError when it is not as the schema says */
export function checked (card: ModelCard): ModelCard {
  try {
    return checkCard(card, card.modelId.slice(0, 200))
  } catch (error) {
    throw new CardError((error as Error).message, { cause: error })
  }
}
