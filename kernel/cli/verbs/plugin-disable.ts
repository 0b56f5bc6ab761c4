import { editConfig, restartHint, saveEdit } from '../edit-config.js'
import { arranged, disabledIn, findPlugin, readInstallation } from '../installed.js'
import type { Verb } from '../verb.js'

export default {
  async run (ctx, [name], options) {
    const installation = await readInstallation(ctx, options['config'])
    findPlugin(installation, name!)
    const off = disabledIn(installation)
    const before = arranged(installation, off).order
    const edit = editConfig(ctx, installation, `plugins.${name!}.enabled`, false)
    const { order } = arranged(installation, off.add(name!))
    const goes = before.filter((one) => !order.includes(one) && one !== name)
    saveEdit(edit)
    if (ctx.out.json) {
      ctx.out.value({ plugins: [{ name, enabled: false, file: edit.path, goesDown: goes }] })
      return
    }
    ctx.out.line(`${name!} is disabled in ${edit.path}.`)
    if (goes.length > 0) ctx.out.line(`With it goes down: ${goes.join(', ')} (they require it).`)
    for (const line of restartHint(ctx)) ctx.out.line(line)
  }
} satisfies Verb
