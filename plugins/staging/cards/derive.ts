import type { CardFile, ModelCard } from '../../../kernel/index.js'
import { parseCard } from '../../runners/cards/card.js'
import { CardError } from '../../runners/cards/reader.js'
import { checkCardPaths, filePathProblem } from '../files/names.js'
import { withTensorSupport } from './cuts.js'
import { Folder } from './folder.js'
import {
  CARD_FILE, cardFiles, checked, PICKLE, toCard, type CardReader, type DeriveOptions
} from './found.js'

/** Size limit for card.yaml: a malicious one takes a second to parse, and the time grows quadratically. */
const CARD_BYTES = 32 * 1024

/**
 * Derives the card of the model in `folder` from its card.yaml or its files. Reads only text files and the
 * headers of ONNX and GGUF files. `engines` are the URLs of the engines' card reader modules. @throws
 * CardError listing the expected files, or naming the broken one
 */
export async function deriveCard (
  folder: string, options: DeriveOptions, engines: readonly string[]
): Promise<ModelCard> {
  const modules = await Promise.all(engines.map(async (url) => await import(url) as { default: CardReader }))
  const readers = modules.map((module) => module.default)
  for (const { path } of options.files) {
    const problem = filePathProblem(path)
    if (problem !== null) throw new CardError(problem)
  }
  const files = new Folder(folder, options.files)
  if (files.has(CARD_FILE)) return await ownCard(files, options, readers)
  const formats = readers.flatMap((reader) => reader.formats).sort((a, b) => a.rank - b.rank)
  for (const { find } of formats) {
    const found = await find(files, options.modelId)
    if (found !== undefined) return withTensorSupport(toCard(found, files, options))
  }
  throw unknown(files, formats.map((format) => format.files))
}

async function ownCard (
  folder: Folder, { modelId, revision }: DeriveOptions, readers: readonly CardReader[]
): Promise<ModelCard> {
  const bytes = folder.size(CARD_FILE)
  if (bytes > CARD_BYTES) {
    throw new CardError(`${CARD_FILE} has ${bytes} bytes, more than ${CARD_BYTES}: list only the files ` +
      'with special roles; svc adds the others')
  }
  const text = await folder.text(CARD_FILE, CARD_BYTES)
  let card: ModelCard
  try {
    card = checkCardPaths(parseCard(text, CARD_FILE), CARD_FILE)
  } catch (error) {
    throw new CardError((error as Error).message.slice(0, 500), { cause: error })
  }
  const why = readers.find(({ engine }) => engine === card.engine)?.refuses?.({ ...card, modelId }) ?? null
  if (why !== null) throw new CardError(why)
  const given = new Map(card.files.map((file) => [file.path, file]))
  const roles = new Map(card.files.map(({ path, role }) => [path, role]))
  for (const { path, role } of card.files) {
    if (role === 'weights' && !folder.has(path)) {
      throw new CardError(`${CARD_FILE} lists ${path} as weights, but there is no such file`)
    }
  }
  const there = cardFiles(folder.files, roles)
  const same = there.totalBytes === card.totalBytes && there.files.length === card.files.length &&
    there.files.every((file) => equal(file, given.get(file.path)))
  return checked({ ...card, modelId, revision, ...same ? {} : there })
}

/** True if size and hash are equal; a missing hash matches any hash. */
const equal = (a: CardFile, b: CardFile | undefined): boolean =>
  a.bytes === b?.bytes && (a.sha256 === undefined || b.sha256 === undefined || a.sha256 === b.sha256)

function unknown (folder: Folder, known: readonly string[]): CardError {
  const other = folder.files.find(({ path }) =>
    PICKLE.test(path) || /\.(safetensors|h5|msgpack|npz)$/.test(path))
  const hint = other === undefined
    ? ''
    : `. Weights like ${other.path} are not supported: pull an ONNX or GGUF export of the model`
  const names = folder.files.slice(0, 8).map(({ path }) => path).join(', ')
  const others = known.slice(0, -1).join(', ')
  return new CardError(
    `unknown model format: expected card.yaml, ${others}, or ${known.at(-1)}; ` +
    `found ${folder.files.length} files: ${names}${hint}`)
}
