import { isModelId, readModelId } from '../../../kernel/cli/index.js'
import { readFileSync, realpathSync, statSync } from 'node:fs'
import { basename, isAbsolute, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { VerbContext } from '../../../kernel/cli/index.js'

export interface Wanted {
  modelId: string
  body: { source?: string, revision?: string, allow?: string[], variant?: string }
}

export interface SourceOptions {
  revision?: string
  variant?: string | undefined
  allow?: string[]
  as?: string
  from?: string
}

/** Largest card.yaml that is looked into for the model's name, bytes. */
const CARD_LIMIT = 1024 * 1024

/** What a word and the options mean. Throws VerbError (2) when they make no sense together. */
export function wantedFrom (ctx: VerbContext, word: string, options: SourceOptions): Wanted {
  const folder = folderAt(ctx, word)
  return folder === undefined ? fromElsewhere(ctx, word, options) : fromFolder(ctx, folder, options)
}

/** The real path of the folder that is meant; undefined for the name of a model. */
function folderAt (ctx: VerbContext, word: string): string | undefined {
  const home = ctx.io.env['HOME']
  const path = home !== undefined && /^~(\/|$)/.test(word) ? join(home, word.slice(1)) : word
  // Not by resolve(): it takes `acme/..` for the current folder without an `acme` in it.
  const full = isAbsolute(path) ? path : `${ctx.io.cwd}/${path}`
  if (isFolder(full)) return realpathSync(full)
  if (/^[./~]/.test(word)) throw ctx.fail(2, `there is no folder ${resolve(full)}`)
  return undefined
}

function isFolder (path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false
  }
}

function fromFolder (ctx: VerbContext, folder: string, options: SourceOptions): Wanted {
  const { as, revision, allow } = options
  refuse(ctx, options, ['variant', 'from'], 'is not for a folder')
  return {
    modelId: as === undefined ? idOfFolder(folder) : readModelId(ctx, as),
    body: {
      source: pathToFileURL(folder).href, ...(revision === undefined ? {} : { revision }),
      ...(allow === undefined ? {} : { allow })
    }
  }
}

/** A model as people write it; `source` where it is neither the hub's nor known by its name alone. */
export interface NamedModel {
  modelId: string
  revision?: string
  variant?: string
  allow?: string[]
  source?: string
}

/** The public hub's addresses of a model, without the model. */
const HUB = /^(?:https?:\/\/)?(?:www\.)?(?:hf\.co|huggingface\.co)\//i
/** One of them: a model, also a folder or a file of it at a revision, which has slashes as a reference. */
const PAGE = new RegExp('^([^/@:?#]+/[^/@:?#]+)(?:/(tree|blob|resolve|raw)/' +
  '(refs(?:/|%2F)(?:pr|convert)(?:/|%2F)[^/@:?#]+|[^/@:?#]+)(?:/([^:?#]*[^:?#/]))?)?/?' +
  '((?:[@:][^?#]*)?)(?:[?#].*)?$', 'is')
/** Where a file belongs to: its parts, its vision weights and its configuration go with a GGUF model. */
const GGUF = /(?:^|\/)((?!mmproj)[A-Za-z0-9._-]{1,64}?)(?:-\d{5}-of-\d{5})?\.gguf$/i

/**
 * Reads `org/name`, also with `@revision` and `:variant`, its address at the hub or that of one of its files,
 * `cache:` before it for the hub's cache of this machine, or `ollama:NAME[:TAG]`. Throws VerbError (2).
 */
export function readNamedModel (ctx: Pick<VerbContext, 'fail'>, word: string): NamedModel {
  if (/^ollama:/i.test(word)) return ofOllama(ctx, word)
  if (/^cache:/i.test(word)) return { ...readHubModel(ctx, word.slice('cache:'.length)), source: 'cache' }
  return readHubModel(ctx, word)
}

/** Named `ollama/NAME-TAG`, so that nobody takes it for a model of the hub's. */
function ofOllama (ctx: Pick<VerbContext, 'fail'>, word: string): NamedModel {
  const name = word.slice('ollama:'.length)
  const plain = name.replace(/:latest$/, '').replace(/[/:]+/g, '-')
  if (!isModelId(`ollama/${plain}`) || /\s/.test(name)) {
    throw ctx.fail(2, `"${word}" is no model of Ollama's: write ollama:NAME or ollama:NAME:TAG, as ` +
      '`ollama list` does')
  }
  return { modelId: `ollama/${plain}`, source: `ollama:${name}` }
}

function readAddress (
  ctx: Pick<VerbContext, 'fail'>, address: string
): { text: string, allow?: string[] } {
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
      throw ctx.fail(2, `"${address}" is no address: ${text} cannot be read`)
    }
  }
}

function readHubModel (ctx: Pick<VerbContext, 'fail'>, word: string): NamedModel {
  const { text, allow } = HUB.test(word) ? readAddress(ctx, word) : { text: word }
  const [, name = '', at, revision, colon, variant] = /^([^@:]*)(@([^:]*))?(:(.*))?$/s.exec(text) ?? []
  // What is wrong is shown as it was written.
  const modelId = isModelId(name) ? name : readModelId(ctx, word)
  if (at !== undefined && revision === '') throw ctx.fail(2, 'after the @ of the model comes a revision')
  if (colon !== undefined && !/^[A-Za-z0-9._-]{1,64}$/.test(variant!)) {
    throw ctx.fail(2, `after the : of the model comes which of its weights, such as ${modelId}:Q4_K_M`)
  }
  return {
    modelId, ...at === undefined ? {} : { revision: revision! },
    ...colon === undefined ? {} : { variant: variant! }, ...allow === undefined ? {} : { allow }
  }
}

function fromElsewhere (ctx: VerbContext, word: string, options: SourceOptions): Wanted {
  const { modelId: own, source, ...named } = readNamedModel(ctx, word)
  const ollama = source?.startsWith('ollama:') === true
  if (ollama) {
    refuse(ctx, options, ['revision', 'variant', 'allow', 'from'], 'is not for a model of Ollama\'s')
  } else refuse(ctx, options, ['as'], 'is for a folder or a model of Ollama\'s only')
  const modelId = options.as === undefined ? own : readModelId(ctx, options.as)
  const revision = oneOf(ctx, 'revisions', ['@', named.revision], ['--revision ', options.revision])
  const variant = oneOf(ctx, 'variants', [':', named.variant], ['--variant ', options.variant])
  const { from } = options
  const allow = options.allow ?? named.allow
  if (from !== undefined && source !== undefined) throw ctx.fail(2, `two sources: ${word} and --from ${from}`)
  if (from !== undefined) {
    const files = allow === undefined ? {} : { allow }
    const why = 'is not for --from: all of it is taken'
    refuse(ctx, { ...options, ...files, variant }, ['variant', 'allow'], why)
  }
  return {
    modelId,
    body: {
      ...(from === undefined ? source === undefined ? {} : { source } : { source: `node:${from}` }),
      ...(revision === undefined ? {} : { revision }),
      ...(allow === undefined ? {} : { allow }),
      ...(variant === undefined ? {} : { variant })
    }
  }
}

type Said = readonly [sign: string, value: string | undefined]

/** What the word or the option says. Throws VerbError (2) where both do, and not the same. */
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

/** The name in the folder's card.yaml, else one made of the folder's own. */
function idOfFolder (folder: string): string {
  const carded = idInCard(join(folder, 'card.yaml'))
  if (carded !== undefined) return carded
  const name = basename(folder).replace(/[^A-Za-z0-9._-]+/g, '-').replace(/\.{2,}/g, '.')
    .replace(/^[^A-Za-z0-9]+/, '').slice(0, 96).replace(/(?<![.-])[.-]+$/, '')
  return `local/${name === '' ? 'model' : name}`
}

function idInCard (path: string): string | undefined {
  try {
    if (statSync(path).size > CARD_LIMIT) return undefined
    const text = readFileSync(path, 'utf8')
    const found = /^modelId:[ \t]*(["']?)([^\s"'#]+)\1[ \t]*(?:#.*)?\r?$/m.exec(text)?.[2]
    return found !== undefined && isModelId(found) ? found : undefined
  } catch {
    return undefined
  }
}
