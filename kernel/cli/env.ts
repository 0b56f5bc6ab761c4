import { launcherEnv } from '../boot/launcher.js'

const own = [...Object.values(launcherEnv), 'SVC_NO_LAUNCHER', 'SVC_DEBUG']

/** The environment without the variables that only speak to the command line. */
export function settingsEnv (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !own.includes(name)))
}
