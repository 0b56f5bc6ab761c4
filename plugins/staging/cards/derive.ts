/** From the files of a model to its card. */
import type { CardFile, ModelCard } from '../../../kernel/index.js'
import { parseCard } from '../../runners/cards/card.js'
import { CardError } from '../../runners/cards/reader.js'
import { checkCardPaths, filePathProblem } from '../files/names.js'
import { withTensorSupport } from './cuts.js'
import { Folder } from './folder.js'
import {
  CARD_FILE, cardFiles, checked, PICKLE, toCard, type CardReader, type DeriveOptions
} from './found.js'

/** YAML made to be slow takes a good second at this size, and the time grows with its square. */
const CARD_BYTES = 32 * 1024

/**
 * The card of the model in `folder`: its own card.yaml, or what its files say. Reads only text, and heads of
 * ONNX and GGUF files. `engines` are the modules by which engines find their models.
 * @throws CardError with what was looked for, or what is broken
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
      'whose roles matter, the others are filled in')
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
      throw new CardError(`${CARD_FILE} names ${path} as weights, which is not among the files`)
    }
  }
  const there = cardFiles(folder.files, roles)
  const same = there.totalBytes === card.totalBytes && there.files.length === card.files.length &&
    there.files.every((file) => equal(file, given.get(file.path)))
  return checked({ ...card, modelId, revision, ...same ? {} : there })
}

/** The same size, and no hash that says otherwise. */
const equal = (a: CardFile, b: CardFile | undefined): boolean =>
  a.bytes === b?.bytes && (a.sha256 === undefined || b.sha256 === undefined || a.sha256 === b.sha256)

function unknown (folder: Folder, known: readonly string[]): CardError {
  const other = folder.files.find(({ path }) =>
    PICKLE.test(path) || /\.(safetensors|h5|msgpack|npz)$/.test(path))
  const hint = other === undefined
    ? ''
    : `. Weights like ${other.path} do not run here; ONNX and GGUF do: pull an export in one of them`
  const names = folder.files.slice(0, 8).map(({ path }) => path).join(', ')
  const others = known.slice(0, -1).join(', ')
  return new CardError(
    `cannot tell what this is: looked for card.yaml, ${others}, and ${known.at(-1)}; ` +
    `found ${folder.files.length} files: ${names}${hint}`)
}
