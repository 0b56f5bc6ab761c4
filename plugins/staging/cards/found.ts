import type { CardFile, ModelCard } from '../../../kernel/index.js'
import { checkCard } from '../../runners/cards/card.js'
import type { Folder, FolderFile } from './folder.js'
import { CardError } from '../../runners/cards/reader.js'

export interface DeriveOptions {
  modelId: string, revision: string, files: FolderFile[]
  /** Licence according to the hub; if it is missing, the files decide. */
  licence?: string | undefined
  languages?: string[] | undefined
}

type Needed = 'description' | 'tasks' | 'family' | 'engine' | 'backends' | 'nLayers' | 'contextLength' |
  'quantization'
type Optional = 'hiddenSize' | 'heads' | 'kvHeads' | 'headSize' | 'memory' | 'licence' | 'languages' |
  'voices' | 'defaults' | 'support' | 'supportsTensor' | 'parameters'

/** Facts about a model for its card. Sizes that do not apply are left out and become 0. */
export type ModelFacts = Pick<ModelCard, Needed> & Partial<Pick<ModelCard, Optional>> & {
  /** Roles of the model's main files; the roles of all others follow from their paths. */
  roles: Map<string, string>
}

/** A model format: a description of its files, and a detector. */
interface CardFormat {
  /** Detectors run in ascending order of rank. */
  readonly rank: number
  readonly files: string
  /** Resolves with undefined if the folder has no model of this format. @throws CardError */
  readonly find: (folder: Folder, modelId: string) => Promise<ModelFacts | undefined>
}

/** Derives model cards for an engine; default export of the engine's `cards` module. */
export interface CardReader {
  readonly engine: string
  readonly formats: readonly CardFormat[]
  /** Why the engine cannot run a model with this card.yaml; null if it can. */
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

/** The role that follows from a file's name; `other` if the name matches no pattern. */
export function roleOf (path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1).toLowerCase()
  return NAMES.find(([pattern]) => pattern.test(name))?.[1] ?? 'other'
}

/** Formats that execute code on loading; svc never opens them. */
export const PICKLE = /\.(bin|pt|pth|ckpt|pkl|pickle)$/i

export const CARD_FILE = 'card.yaml'

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

/** @throws CardError if the card does not match the schema */
export function toCard (found: ModelFacts, folder: Folder, options: DeriveOptions): ModelCard {
  const { modelId, revision } = options
  const { roles, ...facts } = found
  return checked({
    title: modelId.slice(modelId.indexOf('/') + 1), hiddenSize: 0, heads: 0, kvHeads: 0, headSize: 0,
    supportsTensor: false, companions: [], voices: [], defaults: {}, support: {}, ...facts, modelId,
    revision, ...cardFiles(folder.files, roles), licence: options.licence ?? licenceOf(folder, found),
    languages: options.languages ?? facts.languages ?? []
  })
}

/** Checks a card against the schema and returns it. @throws CardError if the card does not match */
export function checked (card: ModelCard): ModelCard {
  try {
    return checkCard(card, card.modelId.slice(0, 200))
  } catch (error) {
    throw new CardError((error as Error).message, { cause: error })
  }
}
