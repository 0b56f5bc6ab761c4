import { HubError, type Wanted } from './types.js'
import { chooseGguf, chooseOnnx, type Choosable } from './select-weights.js'

const MOST_PATTERNS = 64
const LONGEST_PATTERN = 512
/** Limit on matching steps for all patterns and files, about 100 ms, as a hub may list many long names. */
const MOST_STEPS = 10_000_000

/** Formats that execute code on loading, except voice packs named .bin, which hold plain floats. */
const PICKLED = /\.(bin|pt|pth|ckpt|pkl|pickle)$/i
const VOICE_PACK = /(^|\/)voices(\/[^/]+|[^/]*)\.bin$/
const OTHER_WEIGHTS = /\.(safetensors|bin|pt|pth|ckpt|pkl|pickle|h5|msgpack|tflite|mlmodel|nemo|pb|keras)$/i
const OF_MODELS = /\.(gguf|onnx(_data(_\d+)?)?|data|safetensors|bin|npz|npy|md)$/i
/** Weights that programs for transformers and MLX load: not a second copy of them, and no adapters. */
const TENSORS = /^(?!consolidated|adapter)[^/]+\.safetensors$/
const TOKENIZER = /^(tokenizer\.(json|model)|vocab\.json|tekken\.json|tiktoken\.model)$/
const SMALL = /\.(json|txt|jinja|model|ya?ml|tiktoken|vocab)$/
const LEGAL = /^(licen[sc]e|notice|copying|use_policy|model_card)([-_.].*)?$/i

/**
 * Selects the files of a model to download, never formats that execute code on loading. With `allow`: the
 * matching files, with `variant` only that precision. Otherwise: configuration, tokenizer, template, licence,
 * voices, and one precision of the ONNX (else GGUF) weights: `variant`, else the unquantized one up to 4 GiB,
 * else q4, else the smallest (GGUF: Q4_K_M, else the smallest; an encoder with a merged decoder: the decoder
 * in 8 bits, and the encoder if it is large). Without both: the safetensors of the top folder. Throws
 * HubError `not_found`, `refused_format`, `ambiguous` or `bad_request`.
 */
export function selectFiles<F extends Choosable> (files: readonly F[], wanted: Wanted = {}): F[] {
  const { allow, variant } = wanted
  if (allow == null || allow.length === 0) return byDefault(files, variant ?? undefined)
  const named = allowed(files, allow)
  if (variant == null) return named
  const { chosen, dropped } = chooseWeights(named, variant)
  return named.filter((file) => chosen.has(file) || !dropped(file))
}

function allowed<F extends Choosable> (files: readonly F[], allow: readonly string[]): F[] {
  if (allow.length > MOST_PATTERNS || allow.some((p) => p === '' || p.length > LONGEST_PATTERN)) {
    throw new HubError('bad_request',
      `allow takes at most ${MOST_PATTERNS} patterns of 1 to ${LONGEST_PATTERN} characters`)
  }
  const fits = matcherOf(allow)
  const matching = files.filter(({ path }) => fits(path))
  if (matching.length === 0) {
    const patterns = allow.join(' ').slice(0, 200)
    throw new HubError('not_found', `none of the ${files.length} files matches ${patterns}; patterns match ` +
      'the whole path: * within a folder, ** across folders')
  }
  const safe = matching.filter(({ path }) => !isPickled(path))
  const others = isModel(safe) ? null : otherWeights(safe)
  if (others !== null) throw new HubError('refused_format', `allow selects ${others}`)
  if (safe.length > 0) return safe
  throw new HubError('refused_format', `${matching[0]!.path}: this format executes code on loading ` +
    '(pickle), so svc never downloads it; choose ONNX or GGUF files')
}

function byDefault<F extends Choosable> (files: readonly F[], variant: string | undefined): F[] {
  const usable = files.filter(({ path }) => !isPickled(path) && !isHidden(path))
  const { chosen, dropped, found } = chooseWeights(usable, variant)
  const others = found ? null : otherWeights(files)
  if (others !== null) throw new HubError('refused_format', `the model has ${others}`)
  const selected = usable.filter((file) => chosen.has(file) || (isCompanion(file.path) && !dropped(file)))
  if (selected.length === 0) throw new HubError('not_found', 'the model has no usable files')
  return selected
}

/** Chooses the weights; `dropped` returns true for files of weights that were not chosen. */
function chooseWeights<F extends Choosable> (
  files: readonly F[], variant: string | undefined
): { chosen: Set<F>, dropped: (file: F) => boolean, found: boolean } {
  if (files.some(({ path }) => path.endsWith('.onnx'))) return { ...chooseOnnx(files, variant), found: true }
  if (files.some(({ path }) => path.endsWith('.gguf'))) {
    const chosen = chooseGguf(files.filter(({ path }) => path.endsWith('.gguf')), variant)
    return { chosen, dropped: ({ path }) => path.endsWith('.gguf'), found: true }
  }
  const tensors = files.filter(({ path }) => TENSORS.test(path))
  return { chosen: new Set(tensors), dropped: ({ path }) => /\.safetensors$/.test(path),
    found: isModel(files) }
}

function isPickled (path: string): boolean { return PICKLED.test(path) && !VOICE_PACK.test(path) }

function isHidden (path: string): boolean { return /(^|\/)\./.test(path) }

/** Whether a file may belong to a model, by its name; hidden files never do. */
export const isModelFile = (path: string): boolean =>
  !isHidden(path) && (OF_MODELS.test(path) || isCompanion(path))

export const isWeights = (path: string): boolean => /\.(gguf|onnx)$/i.test(path)

export const isModel = (files: readonly { path: string }[]): boolean =>
  files.some(({ path }) => isWeights(path) || path === 'card.yaml') ||
  (files.some(({ path }) => TENSORS.test(path)) && lackingBeside(files).length === 0)

/** What a folder with safetensors lacks to be a model. */
function lackingBeside (files: readonly { path: string }[]): string[] {
  const has = (name: RegExp): boolean => files.some(({ path }) => name.test(path))
  return [...has(/^config\.json$/) ? [] : ['config.json'], ...has(TOKENIZER) ? [] : ['a tokenizer']]
}

/** Says which unsupported weights there are; null if there are none. */
export function otherWeights (files: readonly { path: string }[]): string | null {
  if (files.some(({ path }) => TENSORS.test(path))) {
    return `safetensors without ${lackingBeside(files).join(' and ')} beside them`
  }
  const others = new Set(files.flatMap(({ path }) => OTHER_WEIGHTS.exec(path)?.[0] ?? []))
  return others.size === 0 ? null : `weights only as ${[...others].join(', ')}; svc supports GGUF, ONNX ` +
    'and safetensors. Find a conversion of the model, e.g. by onnx-community'
}

function isCompanion (path: string): boolean {
  const name = path.slice(path.lastIndexOf('/') + 1)
  return SMALL.test(name) || LEGAL.test(name) || /(^|\/)voices(\/|[^/]*\.(bin|npz)$)/.test(path)
}

/**
 * Matches a path against globs: `*` is any characters except `/`, `?` is one such character, `**` is any
 * characters, a `**` segment is any number of folders, even none. Case-sensitive. All paths share one time
 * limit, because patterns come from requests; beyond it, throws HubError `bad_request`.
 */
export function matcherOf (patterns: readonly string[]): (path: string) => boolean {
  const globs = patterns.map(tokensOf)
  const work = { left: MOST_STEPS }
  const known = new Map<string, boolean>()
  return (path) => {
    const fits = known.get(path) ?? globs.some((tokens) => matches(tokens, path, work))
    known.set(path, fits)
    return fits
  }
}

const tokensOf = (pattern: string): string[] => pattern.match(/(?<=^|\/)\*\*\/|\*\*|\*|\?|[^*?]/gs) ?? []

function matches (tokens: readonly string[], path: string, work: { left: number }): boolean {
  // ends[i] is 1 if the tokens of the pattern so far match exactly the first i characters of the path.
  let ends = Uint8Array.from({ length: path.length + 1 }, (_, i) => i === 0 ? 1 : 0)
  for (const token of tokens) {
    work.left -= ends.length
    if (work.left < 0) throw new HubError('bad_request', 'matching allow takes too long: use fewer wildcards')
    ends = endsAfter(token, path, ends)
    if (!ends.includes(1)) return false
  }
  return ends[path.length] === 1
}

function endsAfter (token: string, path: string, before: Uint8Array): Uint8Array<ArrayBuffer> {
  const after = new Uint8Array(before.length)
  let folders = false
  for (let i = 0; i <= path.length; i++) {
    const char = path[i - 1]
    const longer = i > 0 && after[i - 1] === 1
    const [here, next] = [before[i] === 1, i > 0 && before[i - 1] === 1]
    let fits: boolean
    switch (token) {
      case '**': fits = here || longer; break
      case '*': fits = here || (longer && char !== '/'); break
      case '**/': fits = here || (folders && char === '/'); break
      case '?': fits = next && char !== '/'; break
      default: fits = next && char === token
    }
    after[i] = fits ? 1 : 0
    folders ||= here
  }
  return after
}
