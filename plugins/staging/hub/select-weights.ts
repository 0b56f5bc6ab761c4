import { ggufCompanions, ggufModels, groupBy } from '../cards/gguf-parts.js'
import { HubError, type Weights } from './types.js'

/** Largest unquantized model that is chosen by default: 4 GiB. */
const MOST_PLAIN_BYTES = 4 * 1024 ** 3

/** Largest encoder that is chosen without quantization; those of Whisper up to `small` are below it. */
const MOST_ENCODER_BYTES = 400e6

/** Matches file names with a suffix for a precision or an optimisation of the same graph. */
const PRECISION = new RegExp('^(.+)[._-](q[1-8]|q4f16|q8f16|uint8f16|fp16|fp32|bf16|quantized|' +
  'int4|int8|uint8|bnb4|o[1-4]|qu?int8(?:_[a-z0-9_]{1,32})?)$', 'i')
/** Maps the common name of a precision to its file name suffix. */
const ALIASES: Record<string, string> = { q8: 'quantized', fp32: '' }

export interface Choosable { path: string, size: number }

interface Graph<F> { folder: string, base: string, variant: string, files: F[], bytes: number }

/** The chosen ONNX files; `dropped` returns true for files of the graphs that were not chosen. */
export interface OnnxChoice<F> { chosen: Set<F>, dropped: (file: F) => boolean }

/** Chooses the ONNX graphs in one folder, each in one precision. Throws HubError `not_found`, `ambiguous`. */
export function chooseOnnx<F extends Choosable> (
  files: readonly F[], variant: string | undefined
): OnnxChoice<F> {
  const graphs = graphsOf(files)
  refuseCollection(graphs)
  const folders = [...new Set(graphs.map((graph) => graph.folder))].sort()
  const folder = chooseFolder(folders, variant)
  const here = graphs.filter((graph) => graph.folder === folder)
  const byFolder = variant !== undefined && namesVariant(folder, variant)
  const isSplit = variant === undefined && here.some(({ base }) => base === MERGED)
  const graphsUsed = isSplit ? encoderAndDecoder(here)
    : choosePerGraph(here, chooseSuffix(here, byFolder ? undefined : variant))
  const chosen = new Set(graphsUsed.flatMap((graph) => graph.files))
  const others = folders.filter((other) => other !== folder && !isWithin(folder, other))
  return {
    chosen,
    // Drops other graph folders completely, with their configuration files.
    dropped: ({ path }) => partOfGraph(path) || others.some((other) => isWithin(folderOf(path), other))
  }
}

function graphsOf<F extends Choosable> (files: readonly F[]): Graph<F>[] {
  return files.filter(({ path }) => path.endsWith('.onnx')).map((file) => {
    const stem = file.path.slice(file.path.lastIndexOf('/') + 1, -'.onnx'.length)
    const match = PRECISION.exec(stem)
    const variant = (match?.[2] ?? '').toLowerCase()
    const own = files.filter(({ path }) => path === file.path || belongsTo(path, file.path))
    return {
      folder: folderOf(file.path), base: match?.[1] ?? stem, variant: variant === 'fp32' ? '' : variant,
      files: own, bytes: own.reduce((sum, { size }) => sum + size, 0)
    }
  })
}

/** External data and voice settings: `X.onnx_data`, `X.onnx_data_1`, `X.onnx.data`, `X.onnx.json`. */
export function belongsTo (path: string, onnx: string): boolean {
  return path.startsWith(onnx) && /^([._]data(_\d+)?|\.json)$/.test(path.slice(onnx.length))
}

export function partOfGraph (path: string): boolean { return /\.onnx([._]data(_\d+)?|\.json)?$/.test(path) }

const isVoice = ({ files }: Graph<Choosable>): boolean =>
  files.some(({ path }) => path.endsWith('.onnx.json'))

/** The models of a folder, each by one of its files. Graphs of one folder are one model, except voices. */
export function modelsIn (files: readonly Choosable[]): { path: string, bytes: number }[] {
  const graphs = graphsOf(files)
  const others = groupBy(graphs.filter((graph) => !isVoice(graph)),
    ({ folder }) => folder.replace(/(^|\/)onnx$/, ''))
  return [...ggufModels(files), ...graphs.filter(isVoice), ...[...others.values()].map(([graph]) => graph!)]
    .map(({ files: [file], bytes }) => ({ path: file!.path, bytes }))
}

function refuseCollection<F extends Choosable> (graphs: readonly Graph<F>[]): void {
  const voices = graphs.filter(isVoice)
  if (voices.length < 2) return
  const example = voices[0]!.files[0]!.path
  throw new HubError('ambiguous', `the model is a collection of ${voices.length} voices; select one with ` +
    `allow, e.g. "${example}*"`)
}

/** Prefers a folder named like the variant, then `onnx`, the top folder, a CPU folder, the first folder. */
function chooseFolder (folders: readonly string[], variant: string | undefined): string {
  const named = variant === undefined ? undefined : folders.find((folder) => namesVariant(folder, variant))
  return named ?? folders.find((folder) => folder === 'onnx') ?? folders.find((folder) => folder === '') ??
    folders.find((folder) => /cpu/i.test(folder)) ?? folders[0]!
}

function namesVariant (folder: string, variant: string): boolean {
  return folder.split('/').some((segment) => segment.toLowerCase() === variant.toLowerCase())
}

const noVariant = (kind: string, asked: string, names: string): HubError =>
  new HubError('not_found', `the model has no ${kind} variant "${asked.slice(0, 40)}"; it has ${names}: ` +
    'add one after a colon, as in `svc pull ORG/NAME:VARIANT`')

function chooseSuffix<F> (graphs: readonly Graph<F>[], variant: string | undefined): string {
  const known = [...new Set(graphs.map((graph) => graph.variant))]
  if (variant !== undefined) {
    const asked = variant.toLowerCase()
    const suffix = [asked, ALIASES[asked]].find((name) => name !== undefined && known.includes(name))
    if (suffix !== undefined) return suffix
    const names = known.map((name) => name === '' ? 'fp32' : name).sort().join(', ')
    throw noVariant('ONNX', asked, names)
  }
  const bytes = (suffix: string): number => graphs.filter((graph) => graph.variant === suffix)
    .reduce((sum, graph) => sum + graph.bytes, 0)
  if (known.includes('') && bytes('') <= MOST_PLAIN_BYTES) return ''
  return known.includes('q4') ? 'q4' : smallestOf(known, bytes)
}

/** Chooses this precision of each graph; if a graph lacks it, the unquantized file, else the smallest. */
function choosePerGraph<F> (graphs: readonly Graph<F>[], suffix: string): Graph<F>[] {
  return [...groupBy(graphs, (graph) => graph.base).values()].map((same) =>
    same.find((graph) => graph.variant === suffix) ?? same.find((graph) => graph.variant === '') ??
    smallestOf(same, (graph) => graph.bytes))
}

/** Decoder of an export with an encoder, such as Whisper; it replaces the two others. */
const MERGED = 'decoder_model_merged'

/** A large or repeated part in 8 bits, since that costs no accuracy in a decoder, but some in an encoder. */
function encoderAndDecoder<F> (graphs: readonly Graph<F>[]): Graph<F>[] {
  const isPlain = ({ base, variant, bytes }: Graph<F>): boolean =>
    variant === '' && base !== MERGED && bytes <= MOST_ENCODER_BYTES
  const used = graphs.filter(({ base }) => !/^decoder(_with_past)?_model$/.test(base))
  return [...groupBy(used, (graph) => graph.base).values()].map((same) => same.find(isPlain) ??
    same.find(({ variant }) => variant === 'quantized') ?? choosePerGraph(same, '')[0]!)
}

function folderOf (path: string): string { return path.slice(0, Math.max(0, path.lastIndexOf('/'))) }

/** Whether `folder` is `other` or lies below it; the top folder (an empty string) contains every folder. */
function isWithin (folder: string, other: string): boolean {
  return other === '' || folder === other || folder.startsWith(`${other}/`)
}

const PREFERRED = 'q4_k_m'

/** Chooses one complete GGUF model: by variant, else Q4_K_M, else the smallest. Throws `not_found`. */
export function chooseGguf<F extends Choosable> (files: readonly F[], variant: string | undefined): Set<F> {
  const models = ggufModels(files)
  const complete = models.filter(({ files, parts }) => files.length === parts)
  const names = (): string => models.slice(0, 20).map(({ name }) => name).join(', ')
  if (complete.length === 0) {
    throw new HubError('not_found', `every GGUF file of the model lacks a part: ${names()}`)
  }
  const asked = complete.find((model) => isVariant(model.name, variant ?? PREFERRED))
  if (asked === undefined && variant !== undefined) throw noVariant('GGUF', variant, names())
  const chosen = asked ?? smallestOf(complete, ({ bytes }) => bytes)
  return new Set([...chosen.files, ...ggufCompanions(files).keys()])
}

export const QUANTISATION =
  /(?:^|[-._/])((?:UD-)?(?:I?Q\d\w{0,15}|T?Q\d_\d|BF16|F(?:P)?(?:16|32)|MXFP4\w{0,15}))$/i

export function weightsIn (files: readonly Choosable[]): Weights[] {
  const graphs = graphsOf(files)
  const gguf = ggufModels(files).filter(({ files, parts }) => files.length === parts)
  const all = graphs.length > 0
    ? [...new Set(graphs.map(({ variant }) => variant))].map((suffix) =>
        weights('onnx', suffix === '' ? 'fp32' : suffix, choosePerGraph(inFolder(graphs), suffix)
          .flatMap((graph) => graph.files)))
    : gguf.map(({ name, files }) => weights('gguf', QUANTISATION.exec(name)?.[1] ?? name, files))
  return all.sort((a, b) => a.bytes - b.bytes)
}

const inFolder = <F>(graphs: readonly Graph<F>[]): Graph<F>[] => {
  const folder = chooseFolder([...new Set(graphs.map(({ folder }) => folder))].sort(), undefined)
  return graphs.filter((graph) => graph.folder === folder)
}

const weights = (engine: Weights['engine'], name: string, files: readonly Choosable[]): Weights => ({
  name, engine, bytes: files.reduce((sum, { size }) => sum + size, 0), paths: files.map(({ path }) => path)
})

function isVariant (name: string, variant: string): boolean {
  const lower = name.toLowerCase()
  const wanted = variant.toLowerCase()
  return lower === wanted || ['-', '.', '_', '/'].some((mark) => lower.endsWith(mark + wanted))
}

/** The smallest entry, the first one if sizes are equal. The list must not be empty. */
function smallestOf<T> (list: readonly T[], size: (entry: T) => number): T {
  return list.reduce((least, entry) => size(entry) < size(least) ? entry : least)
}
