/**
 * Configuration in two phases: first svc.yaml is found and read (`readConfigFile`) and the plugins it
 * brings in are imported (`pluginModules`); then, with every schema known, `resolveConfig` lays flags over
 * environment over file over defaults and reports all problems at once.
 */
export { changeFile } from './change.js'
export { setInFile } from './edit.js'
export { envName } from './env.js'
export { exampleYaml } from './example.js'
export { findConfig, pluginModules, readConfigFile } from './file.js'
export type { PluginModule } from './file.js'
export type { KernelConfig } from './kernel-keys.js'
export { nearest } from './nearest.js'
export { formatProblems } from './report.js'
export { findSetting, resolveConfig } from './resolve.js'
export type { Entry, Origin, ResolvedConfig, ResolveInput } from './resolve.js'
export { saveConfigFile } from './save.js'
export { readConfigText } from './text.js'
export { parseTyped } from './typed.js'
export { ConfigError } from './types.js'
export type { ConfigOwner, Env, Problem, RawConfig } from './types.js'
