import { isModelId, readModelId, type VerbContext } from '../../../kernel/cli/index.js'
import { readFileSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname, isAbsolute, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

/** A model as named on the command line; `source` is set only for a path. */
export interface NamedModel {
  modelId: string, revision?: string, variant?: string, allow?: string[], source?: string
}

export interface Wanted { modelId: string, body: Omit<NamedModel, 'modelId'> }

export interface SourceOptions extends Pick<NamedModel, 'revision' | 'allow'> {
  variant?: string | undefined, as?: string, from?: string
}

/** Bytes above which a card.yaml is not searched for a model id. */
const CARD_LIMIT = 1024 * 1024

/** Throws VerbError (2) if the argument and the options contradict each other. */
export function wantedFrom (ctx: VerbContext, word: string, options: SourceOptions): Wanted {
  const path = pathAt(ctx, word)
  return path === undefined ? fromElsewhere(ctx, word, options) : fromPath(ctx, path, options)
}

const WEIGHTS = /\.(gguf|onnx)$/i

/** The real path of a folder, or of a GGUF or ONNX file; undefined if the argument is a model id. */
function pathAt (ctx: Pick<VerbContext, 'io' | 'fail'>, word: string): string | undefined {
  const home = ctx.io.env['HOME']
  const path = home !== undefined && /^~(\/|$)/.test(word) ? join(home, word.slice(1)) : word
  // resolve() would turn `acme/..` into the current folder even if `acme` does not exist.
  const full = isAbsolute(path) ? path : `${ctx.io.cwd}/${path}`
  const stats = statSync(full, { throwIfNoEntry: false })
  if (stats?.isDirectory() === true) return realpathSync(full)
  if (stats?.isFile() === true && WEIGHTS.test(full)) return join(realpathSync(dirname(full)), basename(full))
  if (!/^[./~]/.test(word) && (stats === undefined || isModelId(word))) return undefined
  throw ctx.fail(2, stats === undefined
    ? `there is no folder or file ${resolve(full)}` : `${resolve(full)} is not a folder, .gguf or .onnx file`)
}

function fromPath (ctx: VerbContext, path: string, options: SourceOptions): Wanted {
  const { as, revision, allow } = options
  const isFile = statSync(path).isFile()
  refuse(ctx, options, ['variant', 'from'], 'is not allowed for a folder or file')
  if (isFile) refuse(ctx, options, ['allow'], 'is not allowed for a file')
  return {
    modelId: as === undefined ? idOfPath(path) : readModelId(ctx, as),
    body: given({ source: pathToFileURL(path).href, revision, allow })
  }
}

/** Leaves out fields that are undefined. */
const given = (fields: { [K in keyof Wanted['body']]: Wanted['body'][K] | undefined }): Wanted['body'] =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Wanted['body']

/** URL prefix of a model on the public hub. */
const HUB = /^(?:https?:\/\/)?(?:www\.)?(?:hf\.co|huggingface\.co)\//i
/** Matches what follows HUB in such a URL. Revisions such as refs/pr/1 contain slashes. */
const PAGE = new RegExp('^([^/@:?#]+/[^/@:?#]+)(?:/(tree|blob|resolve|raw)/' +
  '(refs(?:/|%2F)(?:pr|convert)(?:/|%2F)[^/@:?#]+|[^/@:?#]+)(?:/([^:?#]*[^:?#/]))?)?/?' +
  '((?:[@:][^?#]*)?)(?:[?#].*)?$', 'is')
/** The model name in a GGUF file name; mmproj files do not count, since they belong to a model. */
const GGUF = /(?:^|\/)((?!mmproj)[A-Za-z0-9._-]{1,64}?)(?:-\d{5}-of-\d{5})?\.gguf$/i

/** As `readHubModel`, or a local path that begins with `.`, `/` or `~` or ends in .gguf or .onnx. */
export function readModelOrPath (ctx: Pick<VerbContext, 'fail' | 'io'>, word: string): NamedModel {
  const path = /^[./~]/.test(word) || WEIGHTS.test(word) ? pathAt(ctx, word) : undefined
  if (path === undefined) return readHubModel(ctx, word)
  return { modelId: idOfPath(path), source: pathToFileURL(path).href }
}

function readAddress (ctx: Pick<VerbContext, 'fail'>, address: string): { text: string, allow?: string[] } {
  const [, model, kind, at, inner, rest = ''] = PAGE.exec(address.replace(HUB, '')) ?? []
  if (model === undefined || /^(datasets|spaces)\//i.test(model)) return { text: address }
  const revision = at === undefined ? '' : `@${unescaped(at)}`
  const file = inner === undefined ? undefined : unescaped(inner)
  if (file === undefined || rest !== '') return { text: `${model}${revision}${rest}` }
  const weights = kind === 'tree' ? undefined : GGUF.exec(file)?.[1]
  if (weights !== undefined) return { text: `${model}${revision}:${weights}` }
  if (kind !== 'tree') return { text: `${model}${revision}`, allow: [file] }
  return { text: `${model}${revision}`, allow: [`${file}/**`] }

  function unescaped (text: string): string {
    try {
      return decodeURIComponent(text)
    } catch {
      throw ctx.fail(2, `"${address}" is not a valid address: cannot decode ${text}`)
    }
  }
}

/** Parses `org/name` with optional `@revision` and `:variant`, or a hub URL. Throws VerbError (2). */
function readHubModel (ctx: Pick<VerbContext, 'fail'>, word: string): NamedModel {
  const { text, allow } = HUB.test(word) ? readAddress(ctx, word) : { text: word }
  const [, name = '', at, revision, colon, variant] = /^([^@:]*)(@([^:]*))?(:(.*))?$/s.exec(text) ?? []
  // On error readModelId quotes the argument as typed.
  const modelId = isModelId(name) ? name : readModelId(ctx, word)
  if (at !== undefined && revision === '') throw ctx.fail(2, 'the revision after @ is missing')
  if (colon !== undefined && !/^[A-Za-z0-9._-]{1,64}$/.test(variant!)) {
    throw ctx.fail(2, `the text after : must name a variant, such as ${modelId}:Q4_K_M`)
  }
  return { modelId, ...given({ revision, variant, allow }) }
}

function fromElsewhere (ctx: VerbContext, word: string, options: SourceOptions): Wanted {
  const { modelId, ...named } = readHubModel(ctx, word)
  refuse(ctx, options, ['as'], 'is allowed only for a folder or file')
  const revision = oneOf(ctx, 'revisions', ['@', named.revision], ['--revision ', options.revision])
  const variant = oneOf(ctx, 'variants', [':', named.variant], ['--variant ', options.variant])
  const { from } = options
  const allow = options.allow ?? named.allow
  if (from !== undefined) {
    const files = allow === undefined ? {} : { allow }
    const why = 'cannot be combined with --from, which copies all files'
    refuse(ctx, { ...options, ...files, variant }, ['variant', 'allow'], why)
  }
  return {
    modelId,
    body: given({ source: from === undefined ? undefined : `node:${from}`, revision, allow, variant })
  }
}

type Said = readonly [sign: string, value: string | undefined]

/** The value from the argument or the option. Throws VerbError (2) if both are given and differ. */
function oneOf (ctx: VerbContext, what: string, [a, one]: Said, [b, other]: Said): string | undefined {
  if (one !== undefined && other !== undefined && one !== other) {
    throw ctx.fail(2, `two ${what}: ${a}${one} and ${b}${other}`)
  }
  return one ?? other
}

function refuse (
  ctx: VerbContext, options: SourceOptions, names: readonly (keyof SourceOptions)[], why: string
): void {
  for (const name of names) if (options[name] !== undefined) throw ctx.fail(2, `--${name} ${why}`)
}

/** The id in a folder's card.yaml, otherwise `local/` and the name of the folder or file. */
function idOfPath (path: string): string {
  if (!WEIGHTS.test(path) || statSync(path).isDirectory()) {
    return idInCard(join(path, 'card.yaml')) ?? localId(basename(path))
  }
  const name = basename(path).replace(/(-\d{5}-of-\d{5})?\.\w+$/, '')
  const folders = dirname(path).split('/').filter((folder) => folder !== 'onnx')
  // Names such as onnx/model_q4.onnx are the same for all models.
  return localId(/^model([._-]|$)/i.test(name) ? folders.at(-1)! : name)
}

function localId (text: string): string {
  const name = text.replace(/[^A-Za-z0-9._-]+/g, '-').replace(/\.{2,}/g, '.')
    .replace(/^[^A-Za-z0-9]+/, '').slice(0, 96).replace(/(?<![.-])[.-]+$/, '')
  return `local/${name === '' ? 'model' : name}`
}

function idInCard (path: string): string | undefined {
  try {
    if (statSync(path).size > CARD_LIMIT) return undefined
    const text = readFileSync(path, 'utf8')
    const found = /^modelId:[ \t]*(["']?)([^\s"'#]+)\1[ \t]*(?:#.*)?\r?$/m.exec(text)?.[2]
    return found !== undefined && isModelId(found) ? found : undefined
  } catch { return undefined }
}
