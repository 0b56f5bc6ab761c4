import { kernelManifest } from './kernel-manifest.js'
import type { ErrorDecl, Manifest, RouteDecl } from '../api/plugin.js'

export interface OwnedRoute { owner: string, name: string, decl: RouteDecl }

/** Every declared route of a set of plugins. */
export function routesOf (manifests: readonly Manifest[]): OwnedRoute[] {
  return manifests.flatMap((m) =>
    Object.entries(m.routes ?? {}).map(([name, decl]) => ({ owner: m.name, name, decl })))
}

interface OwnedError { owner: string, reason: string, decl: ErrorDecl }

export function errorsOf (manifests: readonly Manifest[]): OwnedError[] {
  return [kernelManifest as Manifest, ...manifests].flatMap((m) =>
    Object.entries(m.errors ?? {}).map(([reason, decl]) => ({ owner: m.name, reason, decl })))
}
