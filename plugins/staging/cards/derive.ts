/** From the files of a model to its card. */
import { parseCard } from '../../../kernel/cards/index.js'
import type { CardFile, ModelCard } from '../../../kernel/index.js'
import { refusesCard } from '../../chat/cards.js'
import { checkCardPaths, filePathProblem } from '../files/names.js'
import { findEncoder, findGenai } from './encoder.js'
import { Folder } from './folder.js'
import {
  CARD_FILE, cardFiles, checked, PICKLE, toCard, type DeriveOptions, type Found
} from './found.js'
import { findGguf } from './gguf-model.js'
import { CardError } from './reader.js'
import { findKokoro, findPiper } from './speech.js'

/** YAML made to be slow takes a good second at this size, and the time grows with its square. */
const CARD_BYTES = 32 * 1024

/** The formats of models, in the order in which they are looked for: what its files are, and who finds it. */
const FORMATS: ReadonlyArray<{
  files: string, find: (folder: Folder, modelId: string) => Promise<Found | undefined>
}> = [
  { files: 'a Piper voice (*.onnx with *.onnx.json)', find: findPiper },
  { files: 'Kokoro (*.onnx with voices/*.bin or voices-v1.0.bin)', find: findKokoro },
  { files: 'genai_config.json', find: findGenai },
  { files: 'config.json with model_type and *.onnx or onnx/*.onnx', find: findEncoder },
  { files: '*.gguf', find: findGguf }
]

/**
 * The card of the model in `folder`: its own card.yaml, or what its files say. Reads only text, and heads of
 * ONNX and GGUF files.
 * @throws CardError with what was looked for, or what is broken
 */
export async function deriveCard (folder: string, options: DeriveOptions): Promise<ModelCard> {
  for (const { path } of options.files) {
    const problem = filePathProblem(path)
    if (problem !== null) throw new CardError(problem)
  }
  const files = new Folder(folder, options.files)
  if (files.has(CARD_FILE)) return await ownCard(files, options)
  for (const { find } of FORMATS) {
    const found = await find(files, options.modelId)
    if (found !== undefined) return toCard(found, files, options)
  }
  throw unknown(files)
}

/** The card in the folder, told what is there: files, sizes, id and revision. */
async function ownCard (folder: Folder, { modelId, revision }: DeriveOptions): Promise<ModelCard> {
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
  const why = card.engine === 'onnx-lm' ? refusesCard({ ...card, modelId }) : null
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

function unknown (folder: Folder): CardError {
  const other = folder.files.find(({ path }) =>
    PICKLE.test(path) || /\.(safetensors|h5|msgpack|npz)$/.test(path))
  const hint = other === undefined
    ? ''
    : `. Weights like ${other.path} do not run here; ONNX and GGUF do: pull an export in one of them`
  const names = folder.files.slice(0, 8).map(({ path }) => path).join(', ')
  const known = FORMATS.map((format) => format.files)
  const others = known.slice(0, -1).join(', ')
  return new CardError(
    `cannot tell what this is: looked for card.yaml, ${others}, and ${known.at(-1)}; ` +
    `found ${folder.files.length} files: ${names}${hint}`)
}
