import { editConfig, restartHint, saveEdit } from '../edit-config.js'
import { arranged, disabledIn, findPlugin, readInstallation } from '../installed.js'
import type { Manifest } from '../../api/plugin.js'
import type { Verb } from '../verb.js'

export default {
  async run (ctx, [name], options) {
    const installation = await readInstallation(ctx, options['config'])
    const { manifest } = findPlugin(installation, name!)
    const off = disabledIn(installation)
    const before = arranged(installation, off).order
    const edit = editConfig(ctx, installation, `plugins.${name!}.enabled`, true)
    off.delete(name!)
    const { order, down } = arranged(installation, off)
    const comes = order.filter((one) => !before.includes(one) && one !== name)
    const still = down.find((d) => d.plugin === name)?.message ?? null
    saveEdit(edit)
    if (ctx.out.json) {
      const plugin = { name, enabled: true, file: edit.path, comesBack: comes, stillOff: still }
      ctx.out.value({ plugins: [plugin] })
      return
    }
    for (const line of asksFor(manifest)) ctx.out.line(line)
    ctx.out.line(`${name!} is enabled in ${edit.path}.`)
    if (still !== null) ctx.out.line(`It stays off for now: ${still}`)
    if (comes.length > 0) ctx.out.line(`With it comes back: ${comes.join(', ')}.`)
    for (const line of restartHint(ctx)) ctx.out.line(line)
  }
} satisfies Verb

/** What a plugin adds that its operator should know of before it runs. */
function asksFor (manifest: Manifest): string[] {
  const routes = Object.values(manifest.routes ?? {})
    .map((r) => `${r.method} ${r.url} (authority ${r.authority ?? 'none'})`)
  const authorities = Object.entries(manifest.authorities ?? {})
    .map(([key, text]) => `authority ${key}: ${text}`)
  const all = [...routes, ...authorities]
  return all.length === 0 ? [] : [`${manifest.name} adds:`, ...all.map((line) => `  ${line}`)]
}
