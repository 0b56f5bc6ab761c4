import { formatProblems } from '../../config/problems.js'
import { isUnder, parsePath } from '../../config/paths.js'
import { resolveConfig, type Entry } from '../../config/resolve.js'
import { readConfigText } from '../../config/text.js'
import { describe, hasType, parseTyped } from '../../config/values.js'
import { arrangeAll } from '../../plugins/load.js'
import { CliError, exitCodes } from '../errors.js'
import { apply, disabledIn, installationOf, nodeRuns, settingSchema, printEffect } from '../installed.js'
import { count } from '../text.js'
import type { JsonSchema } from '../../api/schema.js'
import type { Verb, VerbContext } from '../verb.js'

export const check: Verb = {
  async run (ctx, _args, options) {
    const installation = await installationOf(ctx, options['config'])
    const { raw, file } = installation
    const { problems, warnings } = resolveConfig(raw, { ...installation, env: ctx.io.env })
    const { problems: graph } = await arrangeAll(installation, disabledIn(installation))
    const wrong = problems.length + graph.length
    if (ctx.out.json) {
      const plain = graph.map((message) => ({ file, line: null, column: null, path: '', message }))
      ctx.out.value({ file, problems: [...problems, ...plain], warnings })
      return wrong === 0 ? 0 : 1
    }
    const lines = [formatProblems(problems, ctx.io.cwd), ...graph].filter((text) => text !== '')
    if (warnings.length > 0) {
      ctx.err.line(`${ctx.err.paint('yellow', 'warnings:')}\n${formatProblems(warnings, ctx.io.cwd)}`)
    }
    if (wrong > 0) ctx.out.line(lines.join('\n'))
    const good = `${file ?? 'no svc.yaml, the defaults'}: ok`
    ctx.out.line(wrong === 0 ? good : count(wrong, 'problem'))
    return wrong === 0 ? 0 : 1
  }
}

export const get: Verb = {
  async run (ctx, [key], options) {
    const installation = await installationOf(ctx, options['config'])
    const { raw, file, owners } = installation
    const { config, problems } = resolveConfig(raw, { ...installation, env: ctx.io.env })
    if (problems.length > 0) {
      throw ctx.fail(1, `the settings are not valid:\n${formatProblems(problems, ctx.io.cwd)}`)
    }
    const entries = nodeRuns(ctx, options['config'])
      ? await withThoseOfNode(ctx, config.entries(key), key)
      : config.entries(key)
    if (key !== undefined && entries.length === 0) settingSchema(owners, key)
    if (ctx.out.json) ctx.out.value({ settings: entries })
    else if (options['origin'] === true) {
      ctx.out.table(['SETTING', 'VALUE', 'FROM'], entries.map((e) => [e.path, shown(e), originOf(e, file)]))
    } else if (entries.length === 1 && entries[0]!.path === key) {
      ctx.out.line(typeof entries[0]!.value === 'string' ? entries[0]!.value : shown(entries[0]!))
    } else for (const entry of entries) ctx.out.line(`${entry.path}: ${shown(entry)}`)
  }
}

/**
 * The file's entries, with the running node's variables and options instead of this process's. If the node
 * does not answer, warns and returns the file's entries.
 */
async function withThoseOfNode (ctx: VerbContext, own: Entry[], key?: string): Promise<Entry[]> {
  const under = key === undefined ? [] : parsePath(key) ?? [key]
  const overrides = (entry?: Entry): boolean => entry?.origin === 'env' || entry?.origin === 'flag'
  let theirs: Entry[]
  try {
    theirs = (await ctx.client.json<{ entries: Entry[] }>('/config')).entries
      .filter(({ path }) => isUnder(parsePath(path) ?? [], under))
  } catch (error) {
    if (!(error instanceof CliError) || ctx.signal.aborted) throw error
    ctx.err.line(`the running node does not answer GET /config, so these are the values of the file and of ` +
      `this shell's variables, not those in effect: ${error.message}\n  ${remedyFor(error)}`)
    return own
  }
  const merged = new Map(own.map((entry) => [entry.path, entry]))
  for (const entry of theirs) {
    const { path, value, origin, line, source } = entry
    if (!overrides(entry) && !overrides(merged.get(path))) continue
    merged.set(path, { path, value, origin,
      ...line === undefined ? {} : { line }, ...source === undefined ? {} : { source } })
  }
  return [...merged.values()]
}

const remedyFor = ({ exitCode }: CliError): string => exitCode === exitCodes.auth
  ? 'send a token with the authority "operator" (--token, SVC_TOKEN)'
  : '`svc doctor` finds the cause; `svc restart` restarts the node'

const shown = (entry: Entry): string => JSON.stringify(entry.value)

function originOf (entry: Entry, file: string | null): string {
  if (entry.origin === 'file') return `${file ?? 'file'}:${entry.line ?? 1}`
  return entry.origin === 'default' ? 'default' : `${entry.origin} ${entry.source ?? ''}`.trim()
}

/** Parses a list or map in YAML such as `[read, invoke]`; undefined for anything else. */
function parseYaml (text: string, schema: JsonSchema): unknown {
  const { value: { value, ...more }, problems } = readConfigText(`value: ${text}`, null)
  const whole = problems.length === 0 && Object.keys(more).length === 0
  return whole && typeof value === 'object' && hasType(value, schema) ? value : undefined
}

export const set: Verb = {
  async run (ctx, [key, text], options) {
    const installation = await installationOf(ctx, options['config'])
    const schema = settingSchema(installation.owners, key!)
    const reference = /^\$\{env\.[A-Za-z_][A-Za-z0-9_]*\}$/.test(text!)
    const value = reference ? text : parseTyped(text!, schema) ?? parseYaml(text!, schema)
    if (value === undefined) {
      throw ctx.fail(2, `${key!}: expected ${describe(schema)}, not ${JSON.stringify(text)}`)
    }
    const { config } = resolveConfig(installation.raw, { ...installation, env: ctx.io.env })
    const { file, ...effect } = await apply(ctx, installation, key!, value, options['config'])
    if (ctx.out.json) return ctx.out.value({ settings: [{ path: key!, value, file, ...effect }] })
    ctx.out.line(`${key!} is set in ${file}${effect.inEffect ? ', and in effect' : ''}.`)
    const wins = config.entries(key).find((entry) => entry.origin === 'env')
    if (wins !== undefined) {
      ctx.err.line(`${wins.source ?? 'a variable'} is set and overrides the file`)
    }
    printEffect(ctx, effect)
  }
}
