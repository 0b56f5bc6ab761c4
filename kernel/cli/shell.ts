import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { packageRoot } from '../boot/package.js'

export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll('\'', '\'\\\'\'')}'`

/** ` --home HOME` for use in a shown command; empty for the default home. */
export const homeOption = (home: string): string =>
  home === join(homedir(), '.svc') ? '' : ` --home ${shellWord(home)}`

/** The command that runs svc from a folder: `./svc` in a checkout, else `npx svc`. */
export function programIn (folder: string): string {
  const root = packageRoot()
  if (!existsSync(join(root, 'svc'))) return 'npx svc'
  return folder === root ? './svc' : shellWord(join(root, 'svc'))
}
