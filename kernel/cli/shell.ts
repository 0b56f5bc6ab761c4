/** Commands that are printed to be pasted into a shell. */
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { packageRoot } from '../boot/package.js'

/** The text as one word, in quotes if a shell would read it otherwise. */
export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll('\'', '\'\\\'\'')}'`

/** The option that names a home, with a space before it; empty for the default home. */
export const homeOption = (home: string): string =>
  home === join(homedir(), '.svc') ? '' : ` --home ${shellWord(home)}`

/** How this svc is called from a folder: by the launcher of a checkout, else as npm has installed it. */
export function programIn (folder: string): string {
  const root = packageRoot()
  if (!existsSync(join(root, 'svc'))) return 'npx svc'
  return folder === root ? './svc' : shellWord(join(root, 'svc'))
}
