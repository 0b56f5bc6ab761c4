import { failuresOf } from '../contributed.js'
import {
  apply, sortInstalled, disabledIn, findPlugin, installationOf, pluginsAtNode, printEffect, turn
} from '../installed.js'
import { plain } from '../output.js'
import type { Manifest } from '../../api/plugin.js'
import type { Installation } from '../../plugins/installation.js'
import type { PluginAtNode } from '../installed.js'
import type { Verb, VerbContext } from '../verb.js'

export const ls: Verb = {
  async run (ctx, _args, options) {
    const running = await pluginsAtNode(ctx, options['config'])
    if (ctx.elsewhere !== undefined) {
      return list(ctx, running!.map(({ enabled, ...one }) =>
        ({ ...one, state: enabled ? 'enabled' : 'off', source: ctx.client.url })))
    }
    const installation = await installationOf(ctx, options['config'])
    const disabled = disabledIn(installation)
    const { down } = sortInstalled(installation, disabled)
    const plugins = installation.plugins.map(({ manifest: { name, version, summary }, source }) => {
      const change = installation.changed.find((one) => one.name === name)
      const off = change?.message ?? down.find((d) => d.plugin === name)?.message ?? null
      const said = change !== undefined ? 'changed'
        : disabled.has(name) ? 'disabled' : off === null ? 'enabled' : 'off'
      const runs = running?.some((one) => one.name === name && one.enabled) ?? said === 'enabled'
      return runs === (said === 'enabled')
        ? { name, version, state: said, why: off, source, summary }
        : { name, version, state: runs ? 'running' : 'waiting', source, summary,
            why: `svc.yaml has ${name} ${said}; the node applies that at its next restart: svc restart` }
    })
    list(ctx, plugins)
    for (const failure of failuresOf(installation)) ctx.err.line(failure)
    return installation.failures.length > 0 ? 1 : 0
  }
}

type Listed = Omit<PluginAtNode, 'enabled'> & { state: string, source: string }

function list ({ out, err }: VerbContext, plugins: readonly Listed[]): void {
  if (out.json) out.value({ plugins })
  else {
    out.table(['PLUGIN', 'VERSION', 'STATE', 'FROM', 'SUMMARY'],
      plugins.map((p) => [p.name, p.version, p.state, p.source, p.summary]))
  }
  for (const { why } of plugins) if (why !== null) err.line(plain(why))
}

/** Plugins that start or stop together with the named one. Throws CliError. */
function follows (installation: Installation, name: string, enabled: boolean): {
  manifest: Manifest, along: string[], stillOff: string | null
} {
  const { manifest } = findPlugin(installation, name)
  const off = disabledIn(installation)
  const before = sortInstalled(installation, off).order
  if (enabled) off.delete(name)
  else off.add(name)
  const { order, down } = sortInstalled(installation, off)
  const [more, fewer] = enabled ? [order, before] : [before, order]
  const along = more.filter((one) => one !== name && !fewer.includes(one))
  return { manifest, along, stillOff: enabled ? down.find((d) => d.plugin === name)?.message ?? null : null }
}

function turning (enabled: boolean): Verb {
  return {
    async run (ctx, [name = ''], options) {
      const { elsewhere, out } = ctx
      if (elsewhere !== undefined && options['config'] !== undefined) {
        throw ctx.fail(2, '--config is a file of this machine, --url is another node')
      }
      const installation = elsewhere === undefined ? await installationOf(ctx, options['config']) : undefined
      const { manifest, along, stillOff } = installation === undefined
        ? { manifest: undefined, along: [], stillOff: null }
        : follows(installation, name, enabled)
      const { file, ...effect } = installation === undefined
        ? { file: null, ...await turn(ctx, name, enabled) }
        // Enabling removes the setting: an explicit `true` would forbid disabling the plugin's requirements.
        : await apply(ctx, installation, `plugins.${name}.enabled`, enabled ? undefined : false,
            options['config'])
      if (out.json) {
        const more = enabled ? { comesBack: along, stillOff } : { goesDown: along }
        out.value({ plugins: [{ name, enabled, file, ...more, ...effect }] })
        return
      }
      for (const line of enabled && manifest !== undefined ? asksFor(manifest) : []) out.line(line)
      const [word, now] = enabled ? ['enabled', 'running'] : ['disabled', 'stopped']
      const where = file === null ? `at ${ctx.client.url}` : `in ${file}`
      out.line(`${name} is ${word} ${where}${effect.inEffect ? `, and ${now}` : ''}.`)
      if (stillOff !== null) out.line(`It stays disabled for now: ${stillOff}`)
      const others = along.join(', ')
      const much = enabled ? `Also enabled: ${others}` : `Also disabled: ${others} (they require it)`
      if (others !== '') out.line(`${much}.`)
      printEffect(ctx, effect)
    }
  }
}

export const enable = turning(true)

export const disable = turning(false)

/** Lists the routes and authorities that a plugin adds, for the operator to see before enabling it. */
export function asksFor (manifest: Manifest): string[] {
  const routes = Object.values(manifest.routes ?? {})
    .map((r) => `${r.method} ${r.url} (authority ${r.authority ?? 'none'})`)
  const authorities = Object.entries(manifest.authorities ?? {})
    .map(([key, text]) => `authority ${key}: ${text}`)
  const all = [...routes, ...authorities]
  return all.length === 0 ? [] : [`${manifest.name} adds:`, ...all.map((line) => `  ${line}`)]
}
