import { isModelId, readModelId } from '../../../kernel/cli/index.js'
import { readFileSync, realpathSync, statSync } from 'node:fs'
import { basename, isAbsolute, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { VerbContext } from '../../../kernel/cli/index.js'

/** What `svc pull` is to bring, as the node takes it. */
export interface Wanted {
  modelId: string
  body: { source?: string, revision?: string, allow?: string[], variant?: string }
}

/** The options of `svc pull` that say what to bring. */
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
  const { as, revision } = options
  refuse(ctx, options, ['variant', 'allow', 'from'], 'is not for a folder: all of it is taken')
  return {
    modelId: as === undefined ? idOfFolder(folder) : readModelId(ctx, as),
    body: { source: pathToFileURL(folder).href, ...(revision === undefined ? {} : { revision }) }
  }
}

/** A model as people write it. */
export interface NamedModel { modelId: string, revision?: string, variant?: string }

/** The public hub's addresses of a model, without the model. */
const HUB = /^(?:https?:\/\/)?(?:www\.)?(?:hf\.co|huggingface\.co)\//i

const pathOf = (address: string): string =>
  address.replace(HUB, '').replace('/tree/', '@').replace(/\/$/, '')

/**
 * Reads `org/name`, also with `@revision` and `:variant`, or its address at the hub. Throws VerbError (2).
 */
export function readNamedModel (ctx: Pick<VerbContext, 'fail'>, word: string): NamedModel {
  const [, name = '', at, revision, colon, variant] =
    /^([^@:]*)(@([^:]*))?(:(.*))?$/s.exec(HUB.test(word) ? pathOf(word) : word) ?? []
  // What is wrong is shown as it was written.
  const modelId = isModelId(name) ? name : readModelId(ctx, word)
  if (at !== undefined && revision === '') throw ctx.fail(2, 'after the @ of the model comes a revision')
  if (colon !== undefined && !/^[A-Za-z0-9._-]{1,64}$/.test(variant!)) {
    throw ctx.fail(2, `after the : of the model comes which of its weights, such as ${modelId}:Q4_K_M`)
  }
  return {
    modelId, ...at === undefined ? {} : { revision: revision! },
    ...colon === undefined ? {} : { variant: variant! }
  }
}

function fromElsewhere (ctx: VerbContext, word: string, options: SourceOptions): Wanted {
  refuse(ctx, options, ['as'], 'is for a folder only')
  const { modelId, ...named } = readNamedModel(ctx, word)
  const revision = oneOf(ctx, 'revisions', ['@', named.revision], ['--revision ', options.revision])
  const variant = oneOf(ctx, 'variants', [':', named.variant], ['--variant ', options.variant])
  const { allow, from } = options
  if (from !== undefined) {
    refuse(ctx, { ...options, variant }, ['variant', 'allow'], 'is not for --from: all of it is taken')
  }
  return {
    modelId,
    body: {
      ...(from === undefined ? {} : { source: `node:${from}` }),
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
    .replace(/^[^A-Za-z0-9]+/, '').slice(0, 96).replace(/[.-]+$/, '')
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
