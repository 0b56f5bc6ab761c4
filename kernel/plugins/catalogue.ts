import type { Manifest, RouteDecl } from '../api/plugin.js'

export interface OwnedRoute { owner: string, name: string, decl: RouteDecl }

export function routesOf (manifests: readonly Manifest[]): OwnedRoute[] {
  return manifests.flatMap((m) =>
    Object.entries(m.routes ?? {}).map(([name, decl]) => ({ owner: m.name, name, decl })))
}
