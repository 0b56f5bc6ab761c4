/** Identifies a service; carries its TypeScript type, so no global augmentation is needed. */
export interface ServiceRef<T> { readonly id: string, readonly type?: T }

export function defineService<T> (id: string): ServiceRef<T> { return { id } }
