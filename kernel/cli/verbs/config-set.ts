import { resolveConfig } from '../../config/resolve.js'
import { parseTyped } from '../../config/values.js'
import { describe } from '../../config/values.js'
import { editConfig, restartHint, saveEdit } from '../edit-config.js'
import { settingsEnv } from '../env.js'
import { ownersOf, readInstallation, settingSchema } from '../installed.js'
import type { Verb } from '../verb.js'

export default {
  async run (ctx, [key, text], options) {
    const installation = await readInstallation(ctx, options['config'])
    const owners = ownersOf(installation.plugins)
    const schema = settingSchema(owners, key!)
    const reference = /^\$\{env\.[A-Za-z_][A-Za-z0-9_]*\}$/.test(text!)
    const value = reference ? text : parseTyped(text!, schema)
    if (value === undefined) {
      throw ctx.fail(2, `${key!}: expected ${describe(schema)}, not ${JSON.stringify(text)}`)
    }
    const { config } = resolveConfig(installation.raw, { owners, env: settingsEnv({}) })
    const place = config.writtenAt(key!)
    const edit = editConfig(ctx, installation, place, value)
    saveEdit(edit)
    const inForce = resolveConfig(installation.raw, { owners, env: settingsEnv(ctx.io.env) }).config
    const wins = inForce.entries(key)
      .find((entry) => entry.origin === 'env')
    if (ctx.out.json) {
      ctx.out.value({ settings: [{ path: place, value, file: edit.path }] })
      return
    }
    ctx.out.line(`${place} is set in ${edit.path}.`)
    if (wins !== undefined) {
      ctx.err.line(`${wins.source ?? 'a variable'} is set and counts more than the file`)
    }
    for (const line of restartHint(ctx)) ctx.out.line(line)
  }
} satisfies Verb
